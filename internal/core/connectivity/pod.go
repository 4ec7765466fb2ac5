// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package connectivity

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/core/text"
)

// describe is the command that shows the Events of the pod.
func (e *end) describe() string {
	return fmt.Sprintf("kubectl describe pod -n %s %s", e.Namespace, e.Name)
}

func (e *end) examinePod() finding {
	switch {
	case e.Absent:
		return failed("there is no such pod", "kubectl get pods -n "+e.Namespace)
	case e.HostNetwork:
		return failed("it has the network of its node, so no CNI plugin attaches it", "Check a pod without hostNetwork.")
	case e.Phase == "Succeeded" || e.Phase == "Failed":
		return failed("it has ended, with phase "+e.Phase, "Check a pod that runs.")
	case e.Node == "":
		return failed("it has no node yet, with phase "+e.Phase, e.describe()+" says what the scheduler waits for.")
	}
	return ok(fmt.Sprintf("on node %s, with phase %s", e.Node, e.Phase))
}

// examineAnnotation finds the definition of the network among those that the pod requests. A definition of the user can
// have any name: the link that it names tells its network.
func (e *end) examineAnnotation() finding {
	next := fmt.Sprintf("Set it in the pod's template, as %s: %s. Only a new pod gets the network.",
		NetworksAnnotation, e.network.Name)
	requested, err := Requested(e.Namespace, e.Annotation)
	if err != nil {
		return failed(NetworksAnnotation+" is not valid: "+err.Error(), next)
	}
	if len(requested) == 0 {
		return failed("the pod has no "+NetworksAnnotation, next)
	}
	at := slices.IndexFunc(requested, e.isOfNetwork)
	if at < 0 {
		at = slices.IndexFunc(requested, func(r PodName) bool { return r.Name == e.network.Name })
	}
	if at < 0 {
		return failed(fmt.Sprintf("%s names %s, and no definition of network %s", NetworksAnnotation,
			text.Clip(e.Annotation, mostOutput), e.network.Name), next)
	}
	e.definition = requested[at]
	return ok(fmt.Sprintf("%s names %s", NetworksAnnotation, e.definition))
}

// isOfNetwork reports whether a definition attaches pods to the link of the network.
func (e *end) isOfNetwork(definition PodName) bool {
	return e.network.Has(e.Definitions[definition])
}

// Has reports whether a definition, by its spec.config, attaches pods to the link of the network.
func (n Network) Has(config string) bool {
	c, err := parseConfiguration(config)
	return err == nil && c.main().lower() == n.Link
}

func (e *end) examineDefinition() finding {
	shows := fmt.Sprintf("kubectl eni nads %s prints the definition", e.network.NodeENI)
	if e.network.Attachment == podnet.Observed {
		shows = "docs/own-addresses.md has a definition"
	}
	if e.noMultus {
		return failed("the cluster does not know NetworkAttachmentDefinitions", "Install Multus: docs/pod-networks.md.")
	}
	config, exists := e.Definitions[e.definition]
	if !exists {
		return failed("there is no NetworkAttachmentDefinition "+e.definition.String(),
			fmt.Sprintf("Add namespace %s to pods.namespaces of NodeENI %s; the condition PodNetworkReady says what keeps the "+
				"controller from it; %s.", e.definition.Namespace, e.network.NodeENI, shows))
	}
	c, err := parseConfiguration(config)
	if err != nil {
		return failed(fmt.Sprintf("spec.config of %s is not valid: %v", e.definition, err), "Correct it; "+shows+".")
	}
	e.configuration = c
	main := c.main()
	switch {
	case main.lower() == "":
		return warning(fmt.Sprintf("%s names no link, so it is not known whether it is %s", e.definition, e.network.Link),
			shows+".")
	case main.lower() != e.network.Link:
		return failed(fmt.Sprintf("%s attaches pods to link %q, and not to %s", e.definition, main.lower(), e.network.Link),
			"Correct it; "+shows+".")
	case main.Type == "macvlan":
		return failed(e.definition.String()+" calls macvlan, and EC2 delivers to the MAC address of the interface only",
			"Use ipvlan; "+shows+".")
	case c.isOurs() && main.IPAM.Network != e.network.Name:
		return failed(fmt.Sprintf("%s takes addresses of network %s", e.definition, main.IPAM.Network),
			"Correct it; "+shows+".")
	}
	return ok(fmt.Sprintf("%s attaches pods to link %s by %s", e.definition, main.lower(), main.Type))
}

// examineNetwork checks what the agent reports. A network that takes no further pod still serves those that it has.
func (e *end) examineNetwork() finding {
	look := fmt.Sprintf("kubectl eni node %s", e.Node)
	switch {
	case e.Interface == nil:
		return failed(fmt.Sprintf("node %s has no interface of NodeENI %s", e.Node, e.network.NodeENI),
			fmt.Sprintf("kubectl eni why node/%s", e.Node))
	case e.Report == nil:
		return failed(fmt.Sprintf("the agent of node %s does not report network %s", e.Node, e.network.Name),
			"Install the chart with pods.enabled=true, and look at the agent's log; "+look+".")
	case e.Report.Ready:
		return ok(fmt.Sprintf("ready on node %s, with interface %s", e.Node, e.Interface.ID))
	}
	found := fmt.Sprintf("not ready on node %s: %s: %s", e.Node, e.Report.Reason, e.Report.Message)
	next := "docs/troubleshooting.md#pods-cannot-attach-podnetworkready-is-false has the reasons; " + look + "."
	if addresses, _, err := attached(e.Status, e.definition); err == nil && len(addresses) > 0 {
		return warning(found+". No further pod can attach; this one has its addresses", next)
	}
	return failed(found, next)
}

func (e *end) examineAttachment() finding {
	addresses, found, err := attached(e.Status, e.definition)
	next := e.describe() + " has the error of the CNI plugin: docs/pod-networks.md#errors-of-a-pod-that-does-not-start."
	switch {
	case err != nil:
		return failed(StatusAnnotation+" is not valid: "+err.Error(), "Restart the pod, so that Multus writes it again.")
	case e.Status == "":
		return failed("Multus has not attached the pod: it has no "+StatusAnnotation+", and its phase is "+e.Phase,
			next+" A pod that runs without it is older than Multus on its node: restart it.")
	case !found:
		return failed(fmt.Sprintf("Multus did not attach the pod: %s has no %s", StatusAnnotation, e.definition),
			"Restart the pod: an annotation that is newer than the pod has no effect. "+next)
	case len(addresses) == 0:
		return unknown(fmt.Sprintf("not known: %s has no address for %s, so the pod brings up its own, or has none",
			StatusAnnotation, e.definition), "kubectl get floatingaddresses lists the addresses that follow pods. If the pod "+
			"brings up none, give the definition an ipam section.")
	}
	e.addresses = addresses
	return ok("Multus gave the pod " + list(addresses))
}

// examineAddress checks that EC2 delivers each address to the interface, and the interface to the node's instance.
func (e *end) examineAddress() finding {
	i, exists := e.ec2.Interfaces[e.Interface.ID]
	next := fmt.Sprintf("kubectl eni node %s, and kubectl eni why node/%s", e.Node, e.Node)
	switch {
	case !exists:
		return failed(fmt.Sprintf("EC2 has no interface %s", e.Interface.ID), next)
	case !i.AttachedTo(e.Interface.InstanceID):
		return failed(fmt.Sprintf("EC2 does not show %s as attached to %s, the instance of node %s", i.ID,
			e.Interface.InstanceID, e.Node), next)
	}
	for _, address := range e.addresses {
		if !holds(i, address) {
			return e.elsewhere(i, address)
		}
	}
	return ok(fmt.Sprintf("EC2 delivers %s to %s, which is attached to %s", list(e.addresses), i.ID,
		i.Attachment.InstanceID))
}

// elsewhere says where EC2 delivers an address that the interface does not have.
func (e *end) elsewhere(i eni.Interface, address netip.Addr) finding {
	found := fmt.Sprintf("%s does not have %v, so EC2 delivers nothing for it", i.ID, address)
	for id, other := range e.ec2.Interfaces {
		if holds(other, address) {
			found = fmt.Sprintf("EC2 delivers %v to %s, and not to %s, the interface of the pod's node", address, id, i.ID)
		}
	}
	if i.SourceDestCheck {
		found += "; its source/destination check drops packets from there"
	}
	next := "Restart the pod, so that it gets an address of the interface."
	if !e.configuration.isOurs() {
		next = fmt.Sprintf("Declare a range with %v in pods.floating of NodeENI %s; kubectl get floatingaddresses shows the "+
			"addresses that follow pods, and why one does not: docs/own-addresses.md.", address, e.network.NodeENI)
	}
	return failed(found, next)
}

// holds reports whether EC2 delivers an address to an interface: as one of its own, or by a delegated prefix.
func holds(i eni.Interface, address netip.Addr) bool {
	return slices.ContainsFunc(i.Prefixes(), func(p netip.Prefix) bool { return p.Contains(address) })
}

func list(addresses []netip.Addr) string {
	texts := make([]string, 0, len(addresses))
	for _, a := range addresses {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, " and ")
}
