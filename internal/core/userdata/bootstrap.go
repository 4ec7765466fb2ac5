// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
)

// Family is the family of an image. It determines how a node starts.
type Family string

// The families that eni-bootstrap can be started on.
const (
	AL2          Family = "AL2"
	AL2023       Family = "AL2023"
	Bottlerocket Family = "Bottlerocket"
)

// Families returns all of them.
func Families() []Family { return []Family{AL2, AL2023, Bottlerocket} }

// The policies for a node that lacks a required network.
const (
	Fail     = "fail"
	Taint    = "taint"
	Continue = "continue"
)

// Bootstrap is how a node creates its own interfaces before its kubelet starts.
type Bootstrap struct {
	Family Family
	// Networks is the configuration that eni-bootstrap receives with --config. Alternatively, SSMParameter names a
	// parameter that holds it, or the instance's tags hold the parameters.
	Networks, SSMParameter string
	InstanceTags           bool
	// ProgramURL and ProgramSHA256 are the source of the program; without them it is in the image.
	ProgramURL, ProgramSHA256 string
	// Image is the container image of eni-bootstrap that Bottlerocket runs.
	Image string
	// OnFailure is Fail, Taint or Continue.
	OnFailure string
	// Cluster is what self-managed nodes need to join. EKS itself provides it to the nodes of a managed node group.
	Cluster Cluster
	// User is the user's own user data.
	User string
}

// Render returns the user data. The same input gives the same bytes. Its errors name the flag to change.
func (b Bootstrap) Render() (string, error) {
	if err := b.check(); err != nil {
		return "", err
	}
	render := b.linux
	if b.Family == Bottlerocket {
		render = b.bottlerocket
	}
	text, err := render()
	if err != nil {
		return "", err
	}
	if len(text) > MaxSize {
		return "", fmt.Errorf("the user data has %d bytes and EC2 takes %d: keep the networks in an SSM parameter "+
			"(--ssm-parameter), or let a part of --merge load the rest from S3", len(text), MaxSize)
	}
	return text, nil
}

var (
	// A quote or a space would end a word of the script.
	urlPattern       = regexp.MustCompile(`^https?://[^\s'"\\]+$`)
	sha256Pattern    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	parameterPattern = regexp.MustCompile(`^[A-Za-z0-9_./:-]+$`) // Systems Manager user guide, "Parameter names"
	wordPattern      = regexp.MustCompile(`^[A-Za-z0-9_./:=@+-]*$`)
)

func (b Bootstrap) check() error {
	sources := 0
	for _, given := range []bool{b.Networks != "", b.SSMParameter != "", b.InstanceTags} {
		if given {
			sources++
		}
	}
	switch {
	case !slices.Contains(Families(), b.Family):
		return fmt.Errorf("--family is %q and must be one of %v", b.Family, Families())
	case !slices.Contains([]string{Fail, Taint, Continue}, b.OnFailure):
		return fmt.Errorf("--on-failure is %q and must be %s, %s or %s", b.OnFailure, Fail, Taint, Continue)
	case sources != 1:
		return fmt.Errorf("%d of --config, --ssm-parameter and --instance-tags are given: one must say which "+
			"networks the nodes get", sources)
	case b.SSMParameter != "" && !parameterPattern.MatchString(b.SSMParameter):
		return fmt.Errorf("--ssm-parameter is %q, which is not the name of a parameter", b.SSMParameter)
	case b.ProgramURL != "" && !urlPattern.MatchString(b.ProgramURL):
		return fmt.Errorf("--program-url is %q and must be an http or https address without spaces and quotes", b.ProgramURL)
	case (b.ProgramURL != "") != (b.ProgramSHA256 != ""), b.ProgramSHA256 != "" &&
		!sha256Pattern.MatchString(b.ProgramSHA256):
		return fmt.Errorf("--program-sha256 is %q and must be the SHA-256 of what --program-url holds, as 64 "+
			"hexadecimal digits: see sha256sum eni-bootstrap", b.ProgramSHA256)
	default:
		return b.Cluster.check()
	}
}

func (c Cluster) check() error {
	words := []string{c.ClusterName, c.Endpoint, c.CA, c.ServiceCIDR, c.ClusterDNS}
	switch {
	case c != (Cluster{}) && !c.Complete():
		return fmt.Errorf("--cluster-name, --cluster-endpoint, --certificate-authority and --service-cidr are needed " +
			"together; nodes of a managed node group without an image of their own need none")
	case slices.ContainsFunc(words, func(s string) bool { return !wordPattern.MatchString(s) }):
		return fmt.Errorf("one of --cluster-name, --cluster-endpoint, --certificate-authority, --service-cidr and " +
			"--cluster-dns has a character that none of them can have")
	default:
		return nil
	}
}

// linux writes the parts for Amazon Linux.
func (b Bootstrap) linux() (string, error) {
	theirs, err := Split(b.User)
	if err != nil {
		return "", fmt.Errorf("--merge cannot be merged: %w", err)
	}
	script, err := b.script()
	if err != nil {
		return "", err
	}
	parts := append([]Part{{Kind: KindScript, Body: script}}, theirs...)
	if b.Family == AL2 && slices.ContainsFunc(theirs, Part.isNodeConfig) {
		return "", fmt.Errorf("--merge has a NodeConfig, which nothing on Amazon Linux 2 reads: call " +
			"/etc/eks/bootstrap.sh in a script instead, or give --cluster-name and so on")
	}
	switch {
	case !b.Cluster.Complete():
	case b.Family == AL2:
		parts = append(parts, Part{Kind: KindScript, Body: b.joinScriptAL2()})
	default:
		parts = slices.Insert(parts, 1, Part{Kind: KindNodeConfig, Body: NodeConfig(b.Cluster, Node{})})
	}
	return MIME(parts), nil
}

// joinScriptAL2 calls the program that makes a node on Amazon Linux 2 join its cluster.
func (b Bootstrap) joinScriptAL2() string {
	text := fmt.Sprintf("#!/bin/bash\nset -euo pipefail\n/etc/eks/bootstrap.sh '%s' --apiserver-endpoint '%s' "+
		"--b64-cluster-ca '%s'",
		b.Cluster.ClusterName, b.Cluster.Endpoint, b.Cluster.CA)
	if b.Cluster.ClusterDNS != "" {
		text += fmt.Sprintf(" --dns-cluster-ip '%s'", b.Cluster.ClusterDNS)
	}
	return text + "\n"
}

// bottlerocket writes settings. Bottlerocket has no shell: a bootstrap container attaches the interfaces before the
// kubelet starts, and its user data has the networks.
func (b Bootstrap) bottlerocket() (string, error) {
	switch {
	case b.Image == "" || !wordPattern.MatchString(b.Image):
		return "", fmt.Errorf("--image is %q and must name a container image of eni-bootstrap: Bottlerocket can "+
			"start nothing else", b.Image)
	case b.Networks == "":
		return "", fmt.Errorf("--config is needed for Bottlerocket: a bootstrap container takes no arguments, and " +
			"reads the networks from its user data")
	case b.ProgramURL != "":
		return "", fmt.Errorf("--program-url has no meaning for Bottlerocket, which loads the program as --image")
	case b.OnFailure == Taint:
		return "", fmt.Errorf("--on-failure=%s does not work on Bottlerocket, where a bootstrap container cannot "+
			"change the kubelet's arguments: use %s or %s", Taint, Fail, Continue)
	}
	ours := Table{"bootstrap-containers": Table{"multieni": Table{
		"source": b.Image, "mode": "always", "essential": b.OnFailure == Fail,
		"user-data": base64.StdEncoding.EncodeToString([]byte(b.Networks)),
	}}}
	if b.Cluster.Complete() {
		ours["kubernetes"] = Kubernetes(b.Cluster, Node{})
	}
	text, err := Settings(ours, b.User)
	if err != nil {
		return "", fmt.Errorf("--merge cannot be merged: %w", err)
	}
	return text, nil
}
