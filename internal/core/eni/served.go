// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni

// Labels of Nodes. Every kubelet sets the first one; EKS sets the second one on Nodes whose computers it provides or
// does not manage at all (EKS user guide, "Learn how EKS Auto Mode works", "AWS Fargate" and "Hybrid nodes").
const (
	osLabel      = "kubernetes.io/os"
	computeLabel = "eks.amazonaws.com/compute-type"
)

// Reasons of an [UnservedError].
const (
	ReasonNotAnEC2Instance = "NotAnEC2Instance"
	// ReasonManagedInstance: EC2 lets no user, not even the account's root user, attach interfaces to an instance of EKS
	// Auto Mode (AWS whitepaper "Security Overview of Amazon EKS Auto Mode").
	ReasonManagedInstance = "ManagedInstance"
	ReasonWindowsNode     = "WindowsNode"
)

// UnservedError says why a Node gets no interfaces, even if a NodeENI selects it.
type UnservedError struct {
	// Reason is one of the reasons above.
	Reason  string
	message string
}

func (e *UnservedError) Error() string { return e.message }

// ServedInstance returns the instance of a Node by its spec.providerID and labels, or an [UnservedError] if multieni
// can give it no interfaces.
func ServedInstance(providerID string, labels map[string]string) (InstanceRef, error) {
	switch {
	case labels[computeLabel] == "auto":
		return InstanceRef{}, &UnservedError{ReasonManagedInstance, "EKS Auto Mode manages the instance, and EC2 refuses " +
			"to attach interfaces to it; select nodes of a node group that you manage"}
	case labels[computeLabel] == "fargate":
		return InstanceRef{}, &UnservedError{ReasonNotAnEC2Instance, "it is a node of Fargate, which has no instance of " +
			"yours; select nodes of a node group"}
	case labels[computeLabel] == "hybrid":
		return InstanceRef{}, &UnservedError{ReasonNotAnEC2Instance, "it is a hybrid node, which is outside EC2; " +
			"select nodes of a node group"}
	case labels[osLabel] == "windows":
		return InstanceRef{}, &UnservedError{ReasonWindowsNode, "it runs Windows, on which no agent configures the " +
			"interfaces; add kubernetes.io/os: linux to the nodeSelector"}
	}
	ref, err := ParseProviderID(providerID)
	if err != nil {
		return InstanceRef{}, &UnservedError{ReasonNotAnEC2Instance, err.Error()}
	}
	return ref, nil
}
