// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// check returns all differences from the expected state, first those in EC2, then those in the API server.
func check(m moment, want outcome) []string {
	var c checker
	c.moment = m
	c.instances(want.gone)
	c.interfaces(want.holds)
	c.objects(want)
	c.nodesOf(want)
	c.podsOf(want.pods)
	return c.problems
}

type checker struct {
	moment
	problems []string
}

func (c *checker) add(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// same adds a problem unless two values are equal.
func same[T comparable](c *checker, what string, have, want T) {
	if have != want {
		c.add("%s is %v and should be %v", what, have, want)
	}
}

// instances checks that all instances run, except those that are gone.
func (c *checker) instances(gone []string) {
	for _, instance := range c.ec2.Instances {
		want := ec2.Running
		if slices.Contains(gone, c.nodeName(instance)) {
			want = ec2.Terminated
		}
		same(c, "state of "+c.nodeName(instance), instance.State.Name, want)
	}
}

// interfaces checks that EC2 has exactly the desired interfaces.
func (c *checker) interfaces(holds []holding) {
	left := map[string]*ec2.NetworkInterface{}
	for _, i := range c.owned() {
		left[i.NetworkInterfaceID] = i
	}
	for _, want := range holds {
		i := c.find(left, want)
		if i == nil {
			c.add("%s has no interface of %s in %s at device index %d", want.node, want.nodeENI, want.subnet, want.device)
			continue
		}
		delete(left, i.NetworkInterfaceID)
		c.attributes(i, want)
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		c.add("%s of %s is there and should not be", id, left[id].Tags[identity.TagNodeENI])
	}
}

// find returns a desired interface by its location, regardless of the node that its tags name.
func (c *checker) find(among map[string]*ec2.NetworkInterface, want holding) *ec2.NetworkInterface {
	instance := c.instanceOf(want.node)
	for _, i := range among {
		if instance != nil && i.Attachment != nil && i.Attachment.InstanceID == instance.InstanceID &&
			i.Attachment.DeviceIndex == want.device && i.SubnetID == want.subnet && i.Tags[identity.TagNodeENI] == want.nodeENI {
			return i
		}
	}
	return nil
}

// nodesOf checks the reports of agents, if there are any.
func (c *checker) nodesOf(want outcome) {
	if len(c.agents) == 0 {
		return
	}
	for _, name := range want.open {
		node := c.agents[name]
		same(c, "InterfacesReady of "+name, interfacesReady(node), corev1.ConditionTrue)
		same(c, "the startup taint is on "+name, slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == v1alpha1.NotReadyTaint
		}), false)
	}
	for _, name := range want.bare {
		same(c, "InterfacesReady of "+name, interfacesReady(c.agents[name]), corev1.ConditionUnknown)
	}
}

// podsOf checks that the pods run.
func (c *checker) podsOf(names []string) {
	for _, name := range names {
		same(c, "phase of pod "+name, c.pods[name].Status.Phase, corev1.PodRunning)
	}
}

func interfacesReady(node corev1.Node) corev1.ConditionStatus {
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1alpha1.NodeConditionInterfacesReady {
			return condition.Status
		}
	}
	return ""
}

// attributes checks that an interface has the attributes of its NodeENI.
func (c *checker) attributes(i *ec2.NetworkInterface, want holding) {
	nodeENI := c.nodeENI(want.nodeENI)
	if nodeENI == nil {
		c.add("NodeENI %s does not exist", want.nodeENI)
		return
	}
	id, spec := i.NetworkInterfaceID, nodeENI.Spec
	same(c, "status of "+id, i.Status, ec2.StatusInUse)
	same(c, "attachment of "+id, i.Attachment.Status, ec2.Attached)
	same(c, "network card of "+id, i.Attachment.NetworkCardIndex, int(spec.NetworkCardIndex))
	same(c, "deleteOnTermination of "+id, i.Attachment.DeleteOnTermination, ptr.Deref(spec.DeleteOnTermination, true))
	same(c, "sourceDestCheck of "+id, i.SourceDestCheck, ptr.Deref(spec.SourceDestCheck, true))
	same(c, "description of "+id, i.Description, spec.Description)
	same(c, "zone of "+id, i.AvailabilityZone, c.instanceOf(want.node).Placement.AvailabilityZone)
	same(c, "security groups of "+id, strings.Join(groupIDs(i), " "), strings.Join(c.groupsOf(spec, i.VPCID), " "))
	c.tags(i, nodeENI, want.node)
}

func (c *checker) nodeENI(name string) *v1alpha1.NodeENI {
	for n := range c.nodeENIs {
		if c.nodeENIs[n].Name == name {
			return &c.nodeENIs[n]
		}
	}
	return nil
}

func groupIDs(i *ec2.NetworkInterface) []string {
	var ids []string
	for _, group := range i.Groups {
		ids = append(ids, group.GroupID)
	}
	slices.Sort(ids)
	return ids
}

// groupsOf returns the IDs of the security groups that a NodeENI selects.
func (c *checker) groupsOf(spec v1alpha1.NodeENISpec, vpc string) []string {
	var ids []string
	for _, group := range c.ec2.SecurityGroups {
		named := slices.Contains(spec.SecurityGroupIDs, group.GroupID) ||
			slices.Contains(spec.SecurityGroupNames, group.GroupName) ||
			len(spec.SecurityGroupSelector) > 0 && carries(group.Tags, spec.SecurityGroupSelector)
		if group.VPCID == vpc && named {
			ids = append(ids, group.GroupID)
		}
	}
	slices.Sort(ids)
	return ids
}

func carries(tags ec2.Tags, selector map[string]v1alpha1.TagValue) bool {
	for key, value := range selector {
		if have, ok := tags[key]; !ok || have != string(value) {
			return false
		}
	}
	return true
}

// interfaceOf returns the NetworkInterface that records an ENI; nil if none does.
func (c *checker) interfaceOf(id string) *v1alpha1.NetworkInterface {
	for n := range c.interfaceObjects {
		if c.interfaceObjects[n].Status.ENIID == id {
			return &c.interfaceObjects[n]
		}
	}
	return nil
}

// tags checks that the tags identify the NetworkInterface, make the VPC CNI ignore it, and include the user's.
func (c *checker) tags(i *ec2.NetworkInterface, nodeENI *v1alpha1.NodeENI, node string) {
	want := v1alpha1.Strings(nodeENI.Spec.Tags)
	if want == nil {
		want = map[string]string{}
	}
	of := c.interfaceOf(i.NetworkInterfaceID)
	if of == nil {
		c.add("no NetworkInterface has %s", i.NetworkInterfaceID)
		return
	}
	want[identity.TagUID], want[identity.TagInterface] = string(of.UID), of.Name
	want[identity.TagNodeENI], want[identity.TagNode] = nodeENI.Name, node
	want[identity.TagInstanceID] = i.Attachment.InstanceID
	want[identity.TagNoManage] = "true"
	for _, key := range slices.Sorted(maps.Keys(want)) {
		same(c, fmt.Sprintf("tag %s of %s", key, i.NetworkInterfaceID), i.Tags[key], want[key])
	}
}

// objects checks that the objects match EC2, and that none is being deleted.
func (c *checker) objects(want outcome) {
	for n := range c.nodeENIs {
		nodeENI := &c.nodeENIs[n]
		switch inUse := slices.Contains(want.inUse, nodeENI.Name); {
		case inUse && !nodeENI.DeletionTimestamp.IsZero():
			c.inUse(nodeENI)
			continue
		case !nodeENI.DeletionTimestamp.IsZero():
			c.add("NodeENI %s is still being deleted", nodeENI.Name)
			continue
		}
		c.object(nodeENI, want)
	}
	for _, o := range want.obstacles {
		if nodeENI := c.nodeENI(o.nodeENI); nodeENI == nil || !reports(nodeENI, o) {
			c.add("NodeENI %s does not report %s for %s", o.nodeENI, o.reason, o.node)
		}
	}
}

// inUse checks that each attachment of a NodeENI waits for its pods.
func (c *checker) inUse(nodeENI *v1alpha1.NodeENI) {
	for _, a := range nodeENI.Status.Attachments {
		same(c, fmt.Sprintf("reason of NodeENI %s on %s", nodeENI.Name, a.NodeID), a.Reason, string(plan.InUseByPods))
	}
}

func (c *checker) object(nodeENI *v1alpha1.NodeENI, want outcome) {
	attached, blocked := 0, 0
	for _, h := range want.holds {
		if h.nodeENI == nodeENI.Name {
			attached++
		}
	}
	for _, o := range want.obstacles {
		if o.nodeENI == nodeENI.Name {
			blocked++
		}
	}
	who, st := "NodeENI "+nodeENI.Name, nodeENI.Status
	same(c, "observedGeneration of "+who, st.ObservedGeneration, nodeENI.Generation)
	same(c, "attached of "+who, int(st.Attached), attached)
	same(c, "blocked of "+who, int(st.Blocked), blocked)
	same(c, "desired of "+who, int(st.Desired), attached+blocked)
	same(c, "Ready of "+who, meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionReady), blocked == 0)
	for _, a := range st.Attachments {
		c.attachment(who, a)
	}
}

// attachment checks that an attachment names an interface that EC2 has in this slot.
func (c *checker) attachment(who string, a v1alpha1.Attachment) {
	if a.Status == v1alpha1.AttachmentBlocked {
		return
	}
	for _, i := range c.ec2.NetworkInterfaces {
		if i.NetworkInterfaceID == a.ENIID {
			same(c, "device index of "+a.ENIID+" in "+who, int(a.DeviceIndex), device(i))
			same(c, "subnet of "+a.ENIID+" in "+who, a.SubnetID, i.SubnetID)
			return
		}
	}
	c.add("%s lists %q of %s, which EC2 does not hold", who, a.ENIID, a.NodeID)
}

func reports(nodeENI *v1alpha1.NodeENI, o obstacle) bool {
	return slices.ContainsFunc(nodeENI.Status.Attachments, func(a v1alpha1.Attachment) bool {
		return a.NodeID == o.node && a.Status == v1alpha1.AttachmentBlocked && a.Reason == string(o.reason) && a.Message != ""
	})
}
