// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Finalizer keeps a NodeENI until every one of its interfaces is gone, and a NodeENIState until EC2 has confirmed that
// the interfaces of its node are.
const Finalizer = "networking.k8s.aws/finalizer"

// FieldOwnerController is the field owner under which the controller applies specs of NodeENIStates and every status.
const FieldOwnerController = "multieni-controller"
