// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/podnetwork"
	"github.com/multieni/multieni/internal/core/autoscaling"
	"github.com/multieni/multieni/internal/core/report"
)

// manyAddresses is more pods than a kubelet runs. An IPv6 prefix (/80) has addresses for more.
const manyAddresses = 1000

// autoscalerFlags choose the autoscaler and the nodes that it launches.
type autoscalerFlags struct {
	karpenter, clusterAutoscaler bool
	pools, types                 []string
}

func newAutoscaling() *cobra.Command {
	var s screen
	var f autoscalerFlags
	c := &cobra.Command{
		Use:   "autoscaling NODEENI",
		Short: "Print what an autoscaler of nodes must know about a pod network",
		Long: `Print what an autoscaler of nodes must know so that a pod that requests an address of a pod
network brings a new node: for Karpenter a NodeOverlay, for Cluster Autoscaler the tags of the
node group. Both promise the addresses that a node has from the start: 16 for each prefix of
pods.ipv4.prefixes.min, and 1 with HostDevice.

A NodeOverlay lists instance types: those of --instance-types, or of the nodes that the NodeENI
selects. Types without room for the interface are left out. Print it again after an edit of the
NodeENI. Pods that request no address need neither; see docs/autoscaling.md.

The command only reads the Kubernetes API.`,
		Example: `  kubectl eni autoscaling n3 --karpenter --nodepool upf --instance-types 'm6i.*,c6i.*' | kubectl apply -f -
  kubectl eni autoscaling n3 --cluster-autoscaler`,
		Args:              oneName,
		ValidArgsFunction: s.completeNames(nodeENIList),
		RunE: s.begin(func(c *cobra.Command, api client.Client, names []string) error {
			printed, notes, err := f.render(c, api, names[0])
			for _, note := range notes {
				fmt.Fprintln(c.ErrOrStderr(), "note: "+note)
			}
			if err != nil {
				return err
			}
			return s.print(c.OutOrStdout(), printed)
		}),
	}
	c.Flags().BoolVar(&f.karpenter, "karpenter", false, "print a NodeOverlay for Karpenter")
	c.Flags().BoolVar(&f.clusterAutoscaler, "cluster-autoscaler", false, "print tags for Cluster Autoscaler")
	c.Flags().StringSliceVar(&f.pools, "nodepool", nil, "NodePools of Karpenter whose nodes the NodeENI selects")
	c.Flags().StringSliceVar(&f.types, "instance-types", nil,
		"instance types of the NodePools, such as m6i.large or m6i.*; if empty, those of the selected nodes")
	c.MarkFlagsMutuallyExclusive("karpenter", "cluster-autoscaler")
	c.MarkFlagsOneRequired("karpenter", "cluster-autoscaler")
	c.MarkFlagsRequiredTogether("karpenter", "nodepool")
	c.MarkFlagsMutuallyExclusive("cluster-autoscaler", "instance-types")
	s.bind(c, "yaml", "json")
	return c
}

// render returns what the autoscaler must know, and notes on what is left out.
func (f autoscalerFlags) render(c *cobra.Command, api client.Client, name string) (textOutput, []string, error) {
	o, err := readWanted(c.Context(), api)
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(o.nodeENIs, func(n v1alpha1.NodeENI) bool { return n.Name == name })
	if at < 0 {
		return nil, nil, fmt.Errorf("there is no NodeENI %s; see kubectl get nodeeni", name)
	}
	n := &o.nodeENIs[at]
	demand, notes, err := demandOf(n)
	if err != nil {
		return nil, nil, err
	}
	if f.clusterAutoscaler {
		tags, err := demand.Tags(v1alpha1.Strings(n.Spec.NodeSelector))
		return groupTags(tags), notes, err
	}
	patterns := f.types
	if len(patterns) == 0 {
		if patterns = o.typesOf(n); len(patterns) == 0 {
			return nil, notes, fmt.Errorf("NodeENI %s selects no node from which to take instance types; name those of "+
				"the NodePool with --instance-types", name)
		}
	}
	types, refused, err := demand.Types(patterns)
	if err != nil {
		return nil, notes, err
	}
	if left := slices.Sorted(maps.Keys(refused)); len(left) > 0 {
		notes = append(notes, fmt.Sprintf("left out: %s; %s: %s. Keep such types out of the NodePool: their nodes get no "+
			"interface", report.Page{}.Names(left), left[0], refused[left[0]]))
	}
	if len(types) == 0 {
		return nil, notes, fmt.Errorf("no instance type of %s has room for the interfaces of NodeENI %s; lower "+
			"pods.ipv4.prefixes.min, or name larger types with --instance-types", strings.Join(patterns, ", "), name)
	}
	return nodeOverlay(demand.NodeOverlay(f.pools, types)), notes, nil
}

// demandOf returns what the interfaces of a NodeENI need and offer, and notes on networks that only some zones have.
func demandOf(n *v1alpha1.NodeENI) (autoscaling.Demand, []string, error) {
	d := autoscaling.Demand{
		NodeENI: n.Name, Card: int(n.Spec.NetworkCardIndex), Counts: controller.AddressCounts(n.Spec),
	}
	switch pods := n.Spec.Pods; {
	case pods == nil:
		return d, nil, fmt.Errorf("NodeENI %s has no spec.pods, so pods request nothing of it; see "+
			"kubectl explain nodeeni.spec.pods", n.Name)
	case pods.Attachment == v1alpha1.PodAttachmentObserved:
		return d, nil, fmt.Errorf("NodeENI %s has pods.attachment Observed, so nodes have no resource of it, and "+
			"autoscalers need to know nothing", n.Name)
	case pods.Attachment == v1alpha1.PodAttachmentHostDevice:
		d.Pods = 1
	case pods.IPv4 != nil:
		d.Pods = report.AddressesPerPrefix * int64(pods.IPv4.Prefixes.Min)
	default:
		d.Pods = manyAddresses
	}
	zones := map[string]int{}
	for _, subnet := range n.Status.Subnets {
		zones[subnet.Zone]++
	}
	var notes []string
	networks := podnetwork.Networks(n)
	d.Interfaces = len(networks)
	for _, network := range networks {
		var without []string
		for _, zone := range slices.Sorted(maps.Keys(zones)) {
			if zones[zone] <= network.Ordinal {
				without = append(without, zone)
			}
		}
		if len(without) > 0 {
			d.SomeZones = append(d.SomeZones, v1alpha1.AddressesResourcePrefix+network.Name())
			notes = append(notes, fmt.Sprintf("network %s is left out: %s has no subnet for it, and an autoscaler cannot tell "+
				"zones apart. Use a NodeENI and a group of nodes for each zone", network.Name(), strings.Join(without, ", ")))
			continue
		}
		d.Resources = append(d.Resources, v1alpha1.AddressesResourcePrefix+network.Name())
	}
	if len(d.Resources) == 0 {
		return d, notes, errors.New("no network of NodeENI " + n.Name + " is in every zone")
	}
	return d, notes, nil
}

// typesOf returns the instance types of the nodes that a NodeENI selects.
func (o objects) typesOf(n *v1alpha1.NodeENI) []string {
	selector, found := controller.Selector(n.Spec), map[string]bool{}
	for i := range o.nodes {
		node := &o.nodes[i]
		if name := node.Labels[corev1.LabelInstanceTypeStable]; name != "" && selector.Matches(labels.Set(node.Labels)) {
			found[name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// nodeOverlay prints as a manifest.
type nodeOverlay autoscaling.NodeOverlay

// Text prints the manifest with what the NodePool needs.
func (o nodeOverlay) Text(report.Page) string {
	return "# Karpenter reads NodeOverlays with the feature gate NodeOverlay=true (Helm:\n" +
		"# settings.featureGates.nodeOverlay).\n" +
		"# If nodes have the startup taint, the NodePool has it in spec.template.spec.startupTaints:\n" +
		"# {key: " + v1alpha1.NotReadyTaint + ", effect: NoSchedule}\n" + asYAML(o)
}

// groupTags are the tags of a node group.
type groupTags map[string]string

// MarshalJSON writes the tags as the AWS APIs of Auto Scaling do, by key.
func (t groupTags) MarshalJSON() ([]byte, error) {
	type tag struct{ Key, Value string }
	all := []tag{}
	for key, value := range t {
		all = append(all, tag{key, value})
	}
	slices.SortFunc(all, func(a, b tag) int { return cmp.Compare(a.Key, b.Key) })
	return json.Marshal(all)
}

// Text prints the tags by key, and the flag of Cluster Autoscaler.
func (t groupTags) Text(report.Page) string {
	return "# Tags of the Auto Scaling group; for an EKS managed node group, those of the node group itself.\n" +
		"# If nodes have the startup taint, Cluster Autoscaler needs the flag\n" +
		"# --startup-taint=" + v1alpha1.NotReadyTaint + "\n" +
		asYAML(map[string]string(t))
}

func asYAML(v any) string {
	document, err := yaml.Marshal(v)
	if err != nil {
		panic(err) // strings are always YAML
	}
	return string(document)
}
