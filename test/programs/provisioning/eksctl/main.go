// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command eksctl reads a file as eksctl create cluster -f does, up to its first call of AWS, with eksctl's own code: it
// refuses fields that do not exist, sets the defaults and validates the cluster and its managed node groups. It prints
// the result as JSON.
//
// The argument is the file.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"

	eksctl "github.com/weaveworks/eksctl/pkg/apis/eksctl.io/v1alpha5"
	"sigs.k8s.io/yaml"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: eksctl FILE")
	}
	cluster, err := read(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(cluster); err != nil {
		log.Fatal(err)
	}
}

// read returns the cluster that eksctl would create. The steps and their order are those of eksctl's ParseConfig and
// InitializeClusterConfig, whose packages need all of AWS's SDK.
func read(file string) (*eksctl.ClusterConfig, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	cluster := &eksctl.ClusterConfig{}
	if err := yaml.UnmarshalStrict(content, cluster); err != nil {
		return nil, err
	}
	if want := eksctl.ClusterConfigTypeMeta(); cluster.TypeMeta != want {
		return nil, fmt.Errorf("the file is a %s of %s, want a %s of %s", cluster.Kind, cluster.APIVersion, want.Kind,
			want.APIVersion)
	}
	eksctl.SetClusterConfigDefaults(cluster)
	if err := eksctl.ValidateClusterConfig(cluster); err != nil {
		return nil, err
	}
	onOutposts := cluster.IsControlPlaneOnOutposts()
	for i, group := range cluster.ManagedNodeGroups {
		if err := eksctl.SetManagedNodeGroupDefaults(group, cluster.Metadata, onOutposts); err != nil {
			return nil, err
		}
		if err := eksctl.ValidateManagedNodeGroup(i, group); err != nil {
			return nil, err
		}
	}
	return cluster, nil
}
