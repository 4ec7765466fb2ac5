// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"github.com/multieni/multieni/internal/core/userdata"
)

// userData joins our user data with the user's. The user's part comes last, so it takes precedence.
func userData(family Family, user string, c userdata.Cluster, n userdata.Node) (string, *Problem) {
	switch {
	case family == Custom && user == "":
		return "", &Problem{UserDataRequired, "spec.userData",
			"nothing says how instances of this image join the cluster: set userData, or set amiFamily to AL2023 or " +
				"Bottlerocket if the image is derived from one of these"}
	case family == Custom && c.ClusterDNS != "":
		return "", &Problem{ClusterDNSConflict, "spec.cluster.dns",
			"cluster.dns cannot be honoured, since user data of a Custom image is taken as it is: configure the " +
				"kubelet's clusterDNS in userData and leave cluster.dns out"}
	case family == Custom:
		return user, nil
	case !c.Complete() && user == "":
		return "", &Problem{BootstrapIncomplete, "spec.cluster",
			"name, endpoint, certificateAuthority and serviceCIDR of the cluster are needed to write user data; set " +
				"them in spec.cluster, or once for all node templates in nodeCluster of the chart, or give userData that has them"}
	case family == Bottlerocket:
		return bottlerocket(user, c, n)
	default:
		return nodeadm(user, c, n)
	}
}

// nodeadm writes a MIME message with several NodeConfigs. The program nodeadm merges them in their order (nodeadm,
// "Configuration").
func nodeadm(user string, c userdata.Cluster, n userdata.Node) (string, *Problem) {
	theirs, err := userdata.Split(user)
	if err != nil {
		return "", unmergeable(err.Error())
	}
	ours := userdata.Part{Kind: userdata.KindNodeConfig, Body: userdata.NodeConfig(c, n)}
	return userdata.MIME(append([]userdata.Part{ours}, theirs...)), nil
}

func unmergeable(why string) *Problem {
	return &Problem{UserDataConflict, "spec.userData", "userData cannot be merged with what the cluster needs: " + why +
		"; correct it, or set amiFamily: Custom and provide all of it"}
}

// bottlerocket writes TOML.
func bottlerocket(user string, c userdata.Cluster, n userdata.Node) (string, *Problem) {
	text, err := userdata.Settings(userdata.Table{"kubernetes": userdata.Kubernetes(c, n)}, user)
	if err != nil {
		return "", unmergeable(err.Error())
	}
	return text, nil
}
