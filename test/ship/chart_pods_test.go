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
