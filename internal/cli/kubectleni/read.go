// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/report"
)

// objects are the objects in the API server that the commands read.
type objects struct {
	nodeENIs   []v1alpha1.NodeENI
	interfaces []v1alpha1.NetworkInterface
	nodes      []corev1.Node
	// addresses are those that pods brought up themselves.
	addresses []v1alpha1.FloatingAddress
}

func read(ctx context.Context, api client.Reader) (objects, error) {
	o, err := readWanted(ctx, api)
	if err != nil {
		return o, err
	}
	var interfaces v1alpha1.NetworkInterfaceList
	if err := api.List(ctx, &interfaces); err != nil {
		return o, unlisted("NetworkInterfaces", err)
	}
	var addresses v1alpha1.FloatingAddressList
	if err := api.List(ctx, &addresses); err != nil {
		return o, unlisted("FloatingAddresses", err)
	}
	o.interfaces, o.addresses = interfaces.Items, addresses.Items
	return o, nil
}

// readWanted reads what users declare: before multieni is installed, neither the other kinds nor their definitions
// exist.
func readWanted(ctx context.Context, api client.Reader) (objects, error) {
	var o objects
	var nodeENIs v1alpha1.NodeENIList
	if err := api.List(ctx, &nodeENIs); err != nil {
		return o, unlisted("NodeENIs", err)
	}
	var nodes corev1.NodeList
	if err := api.List(ctx, &nodes); err != nil {
		return o, fmt.Errorf("list Nodes: %w", err)
	}
	return objects{nodeENIs: nodeENIs.Items, nodes: nodes.Items}, nil
}

// unlisted returns the error of a list, with the next step if the definition of the kind is missing.
func unlisted(kind string, err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("the cluster does not know %s: install the definitions, with the chart or kubectl apply "+
			"--server-side -f deploy/crds", kind)
	}
	return fmt.Errorf("list %s: %w", kind, err)
}

func readFleet(ctx context.Context, api client.Reader) (report.Fleet, error) {
	o, err := read(ctx, api)
	if err != nil {
		return report.Fleet{}, err
	}
	return o.fleet(), nil
}

// fleet converts the objects.
func (o objects) fleet() report.Fleet {
	f := report.Fleet{NodeENIs: make([]report.NodeENI, 0, len(o.nodeENIs)), Nodes: make([]report.Node, 0, len(o.nodes))}
	for i := range o.nodeENIs {
		f.NodeENIs = append(f.NodeENIs, nodeENIFacts(&o.nodeENIs[i]))
	}
	for i := range o.nodes {
		f.Nodes = append(f.Nodes, nodeFacts(&o.nodes[i]))
	}
	nameOwningNodes(f.Nodes, o.nodes)
	at := map[string]int{}
	for i := range f.Nodes {
		at[f.Nodes[i].Name] = i
	}
	for i := range o.interfaces {
		facts := interfaceFacts(&o.interfaces[i])
		o.addAddresses(&facts)
		o.addRemoval(&facts)
		if _, known := at[facts.Node]; !known {
			at[facts.Node] = len(f.Nodes)
			f.Nodes = append(f.Nodes, report.Node{Name: facts.Node, Absent: true,
				InstanceID: o.interfaces[i].Spec.InstanceID, Zone: o.interfaces[i].Spec.Zone})
		}
		addInterface(&f.Nodes[at[facts.Node]], facts)
	}
	return f
}

// addInterface adds an interface to its node.
func addInterface(node *report.Node, i report.Interface) {
	node.Interfaces = append(node.Interfaces, i)
	if i.Deleting {
		return
	}
	node.Desired++
	if i.Phase == plan.Attached {
		node.Attached++
	}
}

// addAddresses adds the addresses of pods on an interface, and what one of them says if the interface itself has no
// reason.
func (o objects) addAddresses(i *report.Interface) {
	for n := range o.addresses {
		a := &o.addresses[n]
		if i.ENIID == "" || !slices.Contains(controller.InterfacesOf(a), i.ENIID) {
			continue
		}
		i.Foreign = slices.DeleteFunc(i.Foreign, func(other string) bool { return other == a.Spec.Address })
		if holder := a.Status.Holder; holder != nil && holder.ENIID == i.ENIID {
			i.Followed = append(i.Followed, a.Spec.Address)
		}
		for _, kind := range []string{v1alpha1.ConditionContended, v1alpha1.ConditionStalled} {
			if c := meta.FindStatusCondition(a.Status.Conditions, kind); c != nil && i.Reason == "" {
				i.Reason, i.Message = c.Reason, c.Message
			}
		}
	}
}

// addRemoval adds what the NodeENI of an interface says about pods that delay its removal: their eviction is the work
// of the NodeENI's reconciler.
func (o objects) addRemoval(i *report.Interface) {
	if !i.Held || !i.Deleting && !i.Closed {
		return
	}
	for n := range o.nodeENIs {
		if o.nodeENIs[n].Name != i.NodeENI {
			continue
		}
		for _, a := range o.nodeENIs[n].Status.Attachments {
			waits := a.Reason == string(plan.EvictionRefused) || a.Reason == string(plan.InUseByPods)
			if a.ENIID == i.ENIID && waits {
				i.Reason, i.Message = a.Reason, a.Message
			}
		}
	}
}

// nameOwningNodes names the owning Node of each Node whose instance belongs to another one. The facts are in the order
// of the Nodes.
func nameOwningNodes(facts []report.Node, nodes []corev1.Node) {
	owners := map[string]corev1.Node{}
	for _, n := range nodes {
		ref, err := eni.ParseProviderID(n.Spec.ProviderID)
		if owner, known := owners[ref.ID]; err == nil && (!known || controller.CompareNodes(n, owner) < 0) {
			owners[ref.ID] = n
		}
	}
	for i, n := range nodes {
		ref, err := eni.ParseProviderID(n.Spec.ProviderID)
		if owner := owners[ref.ID].Name; err == nil && owner != n.Name {
			facts[i].OwningNode = owner
		}
	}
}

func nodeENIFacts(n *v1alpha1.NodeENI) report.NodeENI {
	facts := report.NodeENI{
		Name: n.Name, Generation: n.Generation, Created: n.CreationTimestamp.Time,
		Selector: v1alpha1.Strings(n.Spec.NodeSelector),
		Accepted: controllerutil.ContainsFinalizer(n, v1alpha1.Finalizer), Deleting: !n.DeletionTimestamp.IsZero(),
		Paused:      controller.Paused(n),
		NotObserved: n.Status.ObservedGeneration != n.Generation,
		Ready:       ready(n.Status.Conditions),
		Nodes:       int(n.Status.Nodes), Desired: int(n.Status.Desired), Attached: int(n.Status.Attached),
		Blocked: int(n.Status.Blocked), Drifted: int(n.Status.Drifted),
	}
	for _, c := range n.Status.Conditions {
		facts.Conditions = append(facts.Conditions, conditionFacts(c))
	}
	for _, s := range n.Status.Subnets {
		facts.Subnets = append(facts.Subnets, s.ID)
	}
	return facts
}

func conditionFacts(c metav1.Condition) report.Condition {
	return report.Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message}
}

func ready(conditions []metav1.Condition) report.Condition {
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); c != nil {
		return conditionFacts(*c)
	}
	return report.Condition{}
}

func nodeFacts(n *corev1.Node) report.Node {
	facts := report.Node{
		Name: n.Name, Labels: n.Labels, Type: n.Labels[corev1.LabelInstanceTypeStable], Paused: controller.Paused(n),
		Tainted: slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.NotReadyTaint }),
	}
	ref, err := eni.ServedInstance(n.Spec.ProviderID, n.Labels)
	if err != nil {
		facts.Unserved = err.Error()
	}
	facts.Zone, facts.InstanceID = ref.Zone, ref.ID
	for _, c := range n.Status.Conditions {
		if c.Type == v1alpha1.NodeConditionInterfacesReady {
			facts.Ready = report.Condition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message}
		}
	}
	return facts
}

func interfaceFacts(n *v1alpha1.NetworkInterface) report.Interface {
	facts := report.Interface{
		Name: n.Name, NodeENI: n.Spec.NodeENI.Name, Ordinal: int(n.Spec.Ordinal),
		Node: cmp.Or(n.Spec.NodeName, n.Spec.InstanceID), Phase: plan.Phase(object.PhaseOf(n)),
		ENIID: n.Status.ENIID, SubnetID: n.Status.SubnetID, PrivateIP: n.Status.Addresses.PrivateIP,
		MAC: n.Status.MACAddress, Slot: object.Slot(n.Spec.Slot), Asked: int(n.Spec.Slot.DeviceIndex),
		Deleting: !n.DeletionTimestamp.IsZero(), Held: n.Held(), Unanswered: n.Status.ENIID != "" && n.Status.Node == nil,
		Closed: n.Spec.Pods != nil && n.Spec.Pods.Closed,
	}
	if n.Status.Slot != nil {
		facts.Slot = object.Slot(*n.Status.Slot)
	}
	facts.Reason, facts.Message = reasonOf(n)
	a := n.Status.Addresses
	for _, address := range slices.Concat(a.SecondaryPrivateIPs, a.IPv4Prefixes, a.IPv6Addresses, a.IPv6Prefixes) {
		if !slices.Contains(n.Status.Requested, address) {
			facts.Foreign = append(facts.Foreign, address)
		}
	}
	for _, d := range n.Status.Drift {
		facts.Drift = append(facts.Drift, fmt.Sprintf("%s: %s wanted, %s there", d.Field, d.Want, d.Have))
	}
	addReport(&facts, n.Status.Node)
	return facts
}

// reasonOf returns why an interface is not as desired; empty if it is. A status of an earlier spec says nothing about
// the present one.
func reasonOf(n *v1alpha1.NetworkInterface) (reason, message string) {
	c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case c != nil && c.Status == metav1.ConditionTrue && report.Remediation(c.Reason) == "":
		return drifted(n)
	case c != nil:
		return c.Reason, c.Message
	case n.Spec.Problem != nil:
		return n.Spec.Problem.Reason, n.Spec.Problem.Message
	default:
		return "", ""
	}
}

// drifted returns that only a replacement would make the interface as declared; empty if it is.
func drifted(n *v1alpha1.NetworkInterface) (reason, message string) {
	if c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionDrifted); c != nil &&
		c.Status == metav1.ConditionTrue {
		return v1alpha1.ReasonDrifted, c.Message
	}
	return "", ""
}

// addReport adds what the agent reports.
func addReport(facts *report.Interface, r *v1alpha1.NodeReport) {
	if r == nil {
		return
	}
	if l := r.Link; l != nil {
		facts.Link = &report.Link{State: string(l.State), Reason: l.Reason, Message: l.Message, Name: l.Name,
			AltName: l.AltName, MTU: int(l.MTU)}
	}
	if r.Pods != nil {
		for _, p := range r.Pods.Pods {
			facts.Pods = append(facts.Pods, p.Namespace+"/"+p.Name)
		}
	}
}

// completeNames completes the names of objects of the lists.
func (a *access) completeNames(lists ...func() client.ObjectList) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		api, err := a.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []cobra.Completion
		for _, list := range lists {
			all := list()
			if err := api.List(c.Context(), all); err != nil {
				continue
			}
			objects, err := meta.ExtractList(all)
			if err != nil {
				continue
			}
			for _, object := range objects {
				names = append(names, object.(client.Object).GetName())
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func nodeList() client.ObjectList    { return &corev1.NodeList{} }
func nodeENIList() client.ObjectList { return &v1alpha1.NodeENIList{} }

func interfaceList() client.ObjectList { return &v1alpha1.NetworkInterfaceList{} }
