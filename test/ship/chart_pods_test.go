// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
)

// Helm refuses an upgrade that forgets pods.enabled while a NodeENI has pods: the agents could no longer tell which
// interfaces pods use.
func TestHelmKeepsPodNetworksThatNodeENIsDeclare(t *testing.T) {
	c := connect(t)
	nodeENI := &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: "pods-declared"}, Spec: v1alpha1.NodeENISpec{
		NodeSelector: map[string]v1alpha1.LabelValue{"ng": "none"}, SubnetIDs: []string{"subnet-0123456789abcdef0"},
		SecurityGroupIDs: []string{"sg-0123456789abcdef0"}, Pods: &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentHostDevice},
	}}
	rendered := func(set string) error {
		out, err := helm(t, "template", "multieni", chart, "--dry-run=server", "--set", "crds.enabled=false,awsRegion=us-east-1,"+set)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := rendered("pods.enabled=false"); err != nil {
		t.Errorf("without such a NodeENI: %v", err)
	}
	if err := c.Create(t.Context(), nodeENI); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), nodeENI) })
	if err := rendered("pods.enabled=false"); err == nil || !strings.Contains(err.Error(), "pods-declared") {
		t.Errorf("helm takes pod networks from agents although a NodeENI has pods: %v", err)
	}
	if err := rendered("pods.enabled=true"); err != nil {
		t.Errorf("with pod networks: %v", err)
	}
}

// Without the API for the policy that adds requests, helm refuses the value and names the version that has it.
func TestRequestsOfAddressesNeedTheAPI(t *testing.T) {
	for version, accepted := range map[string]bool{"1.32.0": false, "1.35.9": false, "v1.35.4-eks-1a2b3c4": false, "1.36.0": true, "v1.36.1-eks-1a2b3c4": true, "1.37.1": true} {
		out, err := helm(t, "template", "multieni", chart, "--kube-version", version, "--set", "pods.enabled=true,pods.requestAddresses=true")
		if (err == nil) != accepted {
			t.Errorf("for Kubernetes %s helm says %v: %s", version, err, out)
		}
		names := strings.Contains(out, "from 1.36 on") && strings.Contains(out, strings.TrimPrefix(version, "v"))
		if !accepted && !names {
			t.Errorf("for Kubernetes %s helm says\n%s\nwant the version that has the API", version, out)
		}
		mustHelm(t, "template", "multieni", chart, "--kube-version", version, "--set", "pods.enabled=true")
	}
	// The kinds of an API server whose operator has turned the API off.
	out, err := helm(t, "template", "multieni", chart, "--kube-version", "1.37.1", "--api-versions", "v1/Pod", "--set", "pods.enabled=true,pods.requestAddresses=true")
	if err == nil || !strings.Contains(out, "does not serve it") {
		t.Errorf("without the kind helm says %v: %s", err, out)
	}
	mustHelm(t, "template", "multieni", chart, "--dry-run=server", "--set", "crds.enabled=false,pods.enabled=true,pods.requestAddresses=true")
}
