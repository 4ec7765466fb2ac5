// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"github.com/multieni/multieni/internal/core/floating"
	"github.com/multieni/multieni/internal/core/plan"
)

// Reasons of the controller for a whole NodeENI, in addition to those of a plan.
const (
	reasonPaused     = "Paused"
	reasonDrifted    = "Drifted"
	reasonUnreadable = "Unreadable"
	reasonOtherName  = "OtherClusterName"
	reasonNoNodes    = "NoNodes"
	reasonDeleting   = "Deleting"

	reasonAnotherNode = "InstanceHasAnotherNode"
)

// goesOn is the advice for a state that resolves without a user.
const goesOn = "Nothing: it goes on by itself."

// Remediation returns the next step for a reason, in one sentence; "" for an unknown reason.
func Remediation(reason string) string { return remediations()[reason] }

func remediations() map[string]string {
	return map[string]string{
		string(plan.SubnetNotFound): "Create the subnet or correct the NodeENI, and check that the " +
			"controller works in the subnet's region and account.",
		string(plan.NoSubnetInZone): "Add a subnet of that zone to the NodeENI, or narrow its nodeSelector " +
			"to the zones it has subnets in.",
		string(plan.SecurityGroupNotFound):  "Create the security group in the node's VPC, or correct the NodeENI.",
		string(plan.SecurityGroupAmbiguous): "Name the security group by its ID.",
		string(plan.SlotTaken):              "Free the device index, ask for another one, or set deviceIndexPolicy: Prefer.",
		string(plan.NotImported): "Import the interface with `kubectl eni import --from " +
			"multus-function`, or detach it.",
		string(plan.NoSuchNetworkCard): "Lower networkCardIndex, or use an instance type that has the card.",
		string(plan.NoSuchDeviceIndex): "Lower deviceIndex, set deviceIndexPolicy: Prefer, or use a larger instance " +
			"type.",
		string(plan.InstanceFull): "Use a larger instance type, ask for fewer interfaces, or let the VPC " +
			"CNI keep fewer warm ENIs.",
		string(plan.InstanceOutsideCluster): "Correct the Node's providerID, or give its instance the tag that " +
			"--instance-tags of the controller asks for.",
		string(plan.AddressLimit): "Ask for fewer addresses or prefixes, or use a larger instance type.",
		string(plan.SubnetFull):   "Use a larger or further subnet; it is tried again every few minutes.",
		string(plan.NoFreePrefix): "Declare a prefix reservation in an unused part of the subnet, or add a " +
			"subnet; `kubectl eni subnets` shows the free blocks.",
		string(plan.LimitReached): "Raise the quota that the message names, in Service Quotas.",
		string(plan.Unauthorized): "Give the controller's role the permissions of deploy/iam/controller.json; " +
			"`kubectl eni doctor` tries each.",
		string(plan.RefusedByEC2): "Correct the NodeENI: EC2 refuses the request as it is.",
		string(plan.TooManyUnattached): "Find out why attaching fails (`kubectl get events -A`); no more interfaces " +
			"are made until then.",
		string(plan.AttachedElsewhere): "Detach the interface from that instance.",
		string(plan.RemovedExternally): "Find out who removes the interface or edits its tags: kubectl eni leaks " +
			"names one that still exists. The next one is made ten minutes after the last.",
		string(plan.Reverted): "Find in CloudTrail who else changes the interface, and stop that or declare " +
			"what it sets.",
		string(plan.Orphaned): "Create the NodeENI again under the same name, or set the annotation " +
			"networking.k8s.aws/paused on the node, before the controller detaches the interface.",
		string(plan.InstanceNotReady): goesOn,
		string(plan.Throttled):        goesOn,
		string(plan.Retrying):         goesOn,
		string(plan.NotVisible):       goesOn,
		string(plan.InProgress):       goesOn,
		string(plan.Removing):         goesOn,
		string(plan.Replacing): "Nothing, if the interface is to be replaced: it waits for its turn. Else change the " +
			"NodeENI back.",
		string(plan.AwaitsTurn): "Nothing: it is replaced after those before it, as maxUnavailable of the NodeENI allows.",
		string(plan.AddressesKept): "Nothing, if programs use the addresses; else unassign them with the command that the " +
			"message names.",
		string(plan.AddressesInUse): "Nothing, if the subnet has enough free addresses; else replace the interface with " +
			"`kubectl delete eni NAME`.",
		string(plan.Retained): "Nothing, if that is right; else settle what the message names.",
		string(plan.PrefixesLimited): "Lower pods.ipv4.prefixes.max, or use a larger instance type; the interface " +
			"works, and grows up to its type's limit.",
		string(plan.UnsupportedByType): "Remove the field that the message names from the NodeENI, or use another " +
			"instance type; the interface works without it.",
		floating.ReasonAddressesLimited: "Move pods to other nodes, or use a larger instance type; " +
			"the oldest addresses work.",
		floating.ReasonAddressRefused: "Remove the address from the pod, or correct pods.floating of the NodeENI.",
		floating.ReasonContended:      "Remove the address from all pods but one.",
		floating.ReasonNotDeclared:    "Remove the address from the pod, or correct pods.floating of the NodeENI.",
		string(plan.InUseByPods):      "Delete or move the pods. If the message names them, pods.onRemoval: Evict does it.",
		string(plan.EvictionRefused): "Do what the message names: change the PodDisruptionBudget or start further " +
			"pods, or set the chart's value pods.eviction.",
		string(plan.AttachStuck): "Check the instance: EC2 does not complete the attachment. multieni undoes it and retries.",
		reasonPaused:             "Remove the annotation networking.k8s.aws/paused when changes may go on.",
		reasonDrifted: "Set updatePolicy: Replace to have the interface replaced, or change the NodeENI " +
			"back. The interface stays in use as it is.",
		reasonUnreadable: "Look at the controller's log, and check its own access to EC2: kubectl exec -n " +
			"eni-controller-system deployment/eni-controller -- /multieni doctor.",
		reasonAnotherNode: "Delete the Node without a kubelet: kubectl delete node NODE. If that is the older one, " +
			"the other adopts all interfaces without a change.",
		reasonOtherName: "Set clusterName of the chart back to the name that the message has.",
		reasonNoNodes:   "Label a node so that it matches nodeSelector.",
	}
}
