// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/netattach"
	"github.com/multieni/multieni/internal/core/podnet"
)

// limit sets the capacity of a network to 0 while the node lacks a CNI plugin of multieni.
func (a *Agent) limit(report *v1alpha1.PodsReport) {
	if missing := a.missingPlugins(); len(missing) > 0 {
		report.Ready, report.Reason, report.Capacity = false, reasonCNIProgram, 0
		report.Message = fmt.Sprintf("the CNI folder of the node lacks %s; restart the agent's pod, which installs them, "+
			"and compare pods.cniDir with the runtime's folder",
			strings.Join(missing, " and "))
	}
}

// missingPlugins returns the CNI plugins of multieni that the node does not have.
func (a *Agent) missingPlugins() []string {
	if a.CNIDir == "" {
		return nil
	}
	var missing []string
	for _, plugin := range []string{netattach.IPAMPlugin, netattach.RoutesPlugin} {
		if file, err := os.Stat(filepath.Join(a.CNIDir, plugin)); err != nil || !file.Mode().IsRegular() ||
			file.Mode()&0o111 == 0 {
			missing = append(missing, plugin)
		}
	}
	return missing
}

// capacity returns the desired extended resources of the node. A network without capacity has none, instead of 0: a
// kubelet that restarts rejects running pods that requested more of a resource than the Node has, and ignores requests
// of resources that the Node does not have. The scheduler starts no pod in either case.
func (a *Agent) capacity(s *snapshot) map[corev1.ResourceName]int64 {
	capacity := map[corev1.ResourceName]int64{}
	for _, one := range s.served {
		if one.object == nil || one.err == nil && one.step.State != podnet.Serving {
			continue
		}
		if report := a.podsReport(s, one); report != nil && report.Capacity > 0 {
			capacity[corev1.ResourceName(v1alpha1.AddressesResourcePrefix+one.network)] += int64(report.Capacity)
		}
	}
	return capacity
}

// ownCapacity returns the part of a Node's capacity that agents write.
func ownCapacity(node *corev1.Node) corev1.ResourceList {
	own := maps.Clone(node.Status.Capacity)
	maps.DeleteFunc(own, func(name corev1.ResourceName, _ resource.Quantity) bool {
		return !strings.HasPrefix(string(name), v1alpha1.AddressesResourcePrefix)
	})
	return own
}

// changedCapacity returns the changes of a Node's capacity for a patch: null removes a resource.
func changedCapacity(node *corev1.Node, want map[corev1.ResourceName]int64) map[corev1.ResourceName]any {
	changes := map[corev1.ResourceName]any{}
	now := ownCapacity(node)
	for name := range now {
		if _, wanted := want[name]; !wanted {
			changes[name] = nil
		}
	}
	for name, value := range want {
		if quantity, has := now[name]; !has || quantity.Value() != value {
			changes[name] = strconv.FormatInt(value, 10)
		}
	}
	return changes
}

// updateCapacity writes the agents' part of the capacity of the Node.
func (a *Agent) updateCapacity(ctx context.Context, s *snapshot) error {
	if s.node == nil || s.isReplaced() {
		return nil
	}
	changes := changedCapacity(s.node, a.capacity(s))
	if len(changes) == 0 {
		return nil
	}
	if err := a.API.writeCapacity(ctx, changes); err != nil {
		return fmt.Errorf("write the capacity of Node %s: %w", a.Node, err)
	}
	return nil
}

// writeCapacity writes changes of a Node's capacity. Other resources belong to other programs.
func (a *API) writeCapacity(ctx context.Context, changes map[corev1.ResourceName]any) error {
	content, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": changes}})
	if err != nil {
		return err
	}
	return a.nodes.patch(ctx, a.node,
		change{kind: types.StrategicMergePatchType, of: []string{"status"}, content: content}, &corev1.Node{})
}
