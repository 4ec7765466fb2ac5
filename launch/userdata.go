// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"slices"
	"strconv"
	"strings"
)

// MaxUserData is the most bytes of user data before they are encoded (EC2 user guide, "User data").
const MaxUserData = 16 * 1024

// Bootstrap is what a node must be told to join the cluster.
type Bootstrap struct {
	ClusterName, Endpoint string
	// CA is the certificate authority of the API server, as base64 of PEM.
	CA string
	// ServiceCIDR is the range of the cluster's services.
	ServiceCIDR string
	// ClusterDNS is the address of the cluster's DNS service; empty for the one that the image derives.
	ClusterDNS string
}

func (b Bootstrap) complete() bool {
	return b.ClusterName != "" && b.Endpoint != "" && b.CA != "" && b.ServiceCIDR != ""
}

// node is what user data says of the node itself.
type node struct {
	labels map[string]string
	// leftAlone is how many interfaces of card 0 the VPC CNI does not use.
	leftAlone int
}

func (n node) labelList() string {
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(n.labels)) {
		labels = append(labels, key+"="+n.labels[key])
	}
	return strings.Join(labels, ",")
}

// userData joins what we have to say with what the user says. The user's part comes last and so has the last word.
func userData(family Family, user string, b Bootstrap, n node) (string, *Problem) {
	switch {
	case family == Custom && user == "":
		return "", &Problem{UserDataRequired, "spec.userData",
			"nothing says how instances of this image join the cluster: set userData, or set amiFamily to AL2023 or Bottlerocket if the image is derived from one of these"}
	case family == Custom && b.ClusterDNS != "":
		return "", &Problem{ClusterDNSConflict, "spec.cluster.dns",
			"cluster.dns cannot be honoured, since user data of a Custom image is taken as it is: configure the kubelet's clusterDNS in userData and leave cluster.dns out"}
	case family == Custom:
		return user, nil
	case !b.complete() && user == "":
		return "", &Problem{BootstrapIncomplete, "spec.cluster",
			"name, endpoint, certificateAuthority and serviceCIDR of the cluster are needed to write user data; set them in spec.cluster, or give userData that has them"}
	case family == Bottlerocket:
		return bottlerocket(user, b, n)
	default:
		return nodeadm(user, b, n)
	}
}

// boundary parts user data; it appears in no configuration.
const boundary = "multieni-part"

// nodeadm writes a MIME message, of which nodeadm merges the NodeConfigs in order (nodeadm, "Configuration").
func nodeadm(user string, b Bootstrap, n node) (string, *Problem) {
	parts := []part{{"application/node.eks.aws", nodeConfig(b, n)}}
	theirs, problem := split(user)
	if problem != nil {
		return "", problem
	}
	var text strings.Builder
	fmt.Fprintf(&text, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", boundary)
	for _, p := range append(parts, theirs...) {
		fmt.Fprintf(&text, "--%s\nContent-Type: %s\n\n%s\n", boundary, p.kind, strings.TrimRight(p.body, "\n"))
	}
	fmt.Fprintf(&text, "--%s--\n", boundary)
	return text.String(), nil
}

func nodeConfig(b Bootstrap, n node) string {
	var text strings.Builder
	text.WriteString("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n")
	if b.complete() {
		fmt.Fprintf(&text, "  cluster:\n    name: %s\n    apiServerEndpoint: %s\n    certificateAuthority: %s\n    cidr: %s\n",
			strconv.Quote(b.ClusterName), strconv.Quote(b.Endpoint), strconv.Quote(b.CA), strconv.Quote(b.ServiceCIDR))
	}
	text.WriteString("  kubelet:\n")
	if n.leftAlone > 0 {
		fmt.Fprintf(&text, "    maxPodsExpression: \"((default_enis - %d) * (ips_per_eni - 1)) + 2\"\n", n.leftAlone)
	}
	if b.ClusterDNS != "" {
		fmt.Fprintf(&text, "    config:\n      clusterDNS:\n      - %s\n", strconv.Quote(b.ClusterDNS))
	}
	fmt.Fprintf(&text, "    flags:\n    - %s\n", strconv.Quote("--node-labels="+n.labelList()))
	return text.String()
}

// part is one part of user data.
type part struct{ kind, body string }

// split recognises the user's part or parts by how they begin.
func split(user string) ([]part, *Problem) {
	begin := strings.TrimSpace(user)
	switch {
	case begin == "":
		return nil, nil
	case strings.HasPrefix(begin, "MIME-Version:"), strings.HasPrefix(begin, "Content-Type: multipart/"):
		return mimeParts(begin)
	case strings.HasPrefix(begin, "#!"):
		return []part{{"text/x-shellscript", user}}, nil
	case strings.HasPrefix(begin, "#cloud-config"):
		return []part{{"text/cloud-config", user}}, nil
	case strings.Contains(begin, "apiVersion: node.eks.aws/"):
		return []part{{"application/node.eks.aws", user}}, nil
	default:
		return nil, unmergeable("it is neither a MIME message, a script that begins with #!, #cloud-config, nor a NodeConfig of node.eks.aws")
	}
}

func unmergeable(why string) *Problem {
	return &Problem{UserDataConflict, "spec.userData", "userData cannot be merged with what the cluster needs: " + why +
		"; correct it, or set amiFamily: Custom and provide all of it"}
}

func mimeParts(text string) ([]part, *Problem) {
	message, err := mail.ReadMessage(strings.NewReader(text + "\n"))
	if err != nil {
		return nil, unmergeable("its MIME header cannot be read: " + err.Error())
	}
	_, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || params["boundary"] == "" {
		return nil, unmergeable("its MIME header names no boundary")
	}
	reader := multipart.NewReader(message.Body, params["boundary"])
	var parts []part
	for {
		next, err := reader.NextRawPart()
		if err == io.EOF {
			return parts, nil
		}
		if err != nil {
			return nil, unmergeable("its MIME parts cannot be read: " + err.Error())
		}
		body, err := io.ReadAll(next)
		if err != nil {
			return nil, unmergeable("its MIME parts cannot be read: " + err.Error())
		}
		if next.Header.Get("Content-Transfer-Encoding") != "" {
			return nil, unmergeable("one of its MIME parts is encoded; write the parts as plain text")
		}
		parts = append(parts, part{next.Header.Get("Content-Type"), string(body)})
	}
}

// bottlerocket writes TOML. A table can be opened only once in TOML, so the user's settings may not open ours.
func bottlerocket(user string, b Bootstrap, n node) (string, *Problem) {
	for line := range strings.Lines(user) {
		if table := strings.TrimSpace(line); strings.HasPrefix(table, "[settings.kubernetes]") || strings.HasPrefix(table, "[settings.kubernetes.node-labels]") {
			return "", unmergeable("it opens the table " + strings.Trim(table, "[]") + ", which is written for it")
		}
	}
	var text strings.Builder
	text.WriteString("[settings.kubernetes]\n")
	if b.complete() {
		fmt.Fprintf(&text, "cluster-name = %s\napi-server = %s\ncluster-certificate = %s\n",
			strconv.Quote(b.ClusterName), strconv.Quote(b.Endpoint), strconv.Quote(b.CA))
	}
	if b.ClusterDNS != "" {
		fmt.Fprintf(&text, "cluster-dns-ip = %s\n", strconv.Quote(b.ClusterDNS))
	}
	text.WriteString("\n[settings.kubernetes.node-labels]\n")
	for _, key := range slices.Sorted(maps.Keys(n.labels)) {
		fmt.Fprintf(&text, "%s = %s\n", strconv.Quote(key), strconv.Quote(n.labels[key]))
	}
	if user != "" {
		fmt.Fprintf(&text, "\n%s\n", strings.TrimSpace(user))
	}
	return text.String(), nil
}
