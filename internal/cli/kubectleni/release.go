// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// fieldOwnerRelease is the field owner of a hold that a user ended in place of the agent.
const fieldOwnerRelease = "kubectl-eni"

func newRelease() *cobra.Command {
	var a access
	var q question
	c := &cobra.Command{
		Use:   "release NETWORKINTERFACE",
		Short: "End the hold on an interface of a node whose agent will not come back",
		Long: `End the hold on a NetworkInterface that is being deleted: say in place of the agent that nothing on
the node uses the interface. The controller then detaches and deletes it.

Use it only if the agent of the node will not come back, and the instance still runs: while pods or
programs use the interface, they lose it. A running agent ends the hold itself when nothing uses the
interface any more; kubectl eni why eni/NAME says what it waits for. When the instance ends, no hold
counts.`,
		Example: `  kubectl eni release multus-eni-config-i-0123456789abcdef0-0
  kubectl eni release multus-eni-config-i-0123456789abcdef0-0 --yes    # in a script`,
		Args:              oneName,
		ValidArgsFunction: a.completeNames(interfaceList),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := a.connect()
			if err != nil {
				return err
			}
			return release(c, api, args[0], q)
		},
	}
	q.bind(c.Flags())
	a.bind(c.Flags())
	return c
}

// release writes that nothing uses an interface, over the version that the user confirmed.
func release(c *cobra.Command, api client.Client, name string, q question) error {
	var n v1alpha1.NetworkInterface
	err := api.Get(c.Context(), client.ObjectKey{Name: name}, &n)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no NetworkInterface %s; see kubectl get eni", name)
	case err != nil:
		return fmt.Errorf("read NetworkInterface %s: %w", name, err)
	case n.DeletionTimestamp.IsZero():
		return fmt.Errorf("NetworkInterface %[1]s is not being deleted, so its agent may open it again; first: kubectl "+
			"delete eni %[1]s --wait=false", name)
	case !n.Held():
		fmt.Fprintln(c.ErrOrStderr(), "nothing holds", name)
		return nil
	}
	text := fmt.Sprintf("Is the agent of node %s gone for good, and does nothing use %s there?", n.Spec.NodeName,
		n.Status.ENIID)
	if err := q.ask(c, text); err != nil {
		return err
	}
	if err := endHold(c.Context(), api, &n); err != nil {
		return err
	}
	fmt.Fprintln(c.ErrOrStderr(), "released", name)
	return nil
}

func endHold(ctx context.Context, api client.Client, n *v1alpha1.NetworkInterface) error {
	before := n.DeepCopy()
	if n.Status.Node == nil {
		n.Status.Node = &v1alpha1.NodeReport{Agent: v1alpha1.AgentProcess{BootID: "none", ProcessID: fieldOwnerRelease}}
	}
	n.Status.Node.Open = false
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := api.Status().Patch(ctx, n, patch, client.FieldOwner(fieldOwnerRelease))
	if apierrors.IsConflict(err) {
		return errors.New("the agent or the controller changed the object meanwhile, so nothing was done; repeat the command")
	}
	if err != nil {
		return fmt.Errorf("write the status of NetworkInterface %s: %w", n.Name, err)
	}
	return nil
}
