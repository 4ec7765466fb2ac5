// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// addressVerbs are the verbs that agents have for FloatingAddresses, by subresource.
var addressVerbs = map[string][]string{"": {"get", "list", "watch", "create"}, "status": {"patch"}}

const addressSubnet = "subnet-00000000000000001"

// newAddress returns an address as an agent makes it.
func newAddress(address string) *v1alpha1.FloatingAddress {
	return &v1alpha1.FloatingAddress{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FloatingAddressName(addressSubnet, address), Finalizers: []string{v1alpha1.Finalizer}},
		Spec:       v1alpha1.FloatingAddressSpec{SubnetID: addressSubnet, Address: address},
	}
}

// guardAgents applies the role and the policy of agents, and makes two nodes with agents.
func guardAgents(t *testing.T, admin client.Client) {
	t.Helper()
	for _, file := range []string{"config/rbac/agent.yaml", "config/admission/agent.yaml"} {
		applyFile(t, admin, file)
	}
	for _, name := range []string{"node-a", "node-b"} {
		provide(t, admin, name)
	}
	policyInForce(t, everything(t, withToken(agentToken(t, admin, ""))))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeAddress(t *testing.T, as client.Client, name, status string) error {
	t.Helper()
	object := &v1alpha1.FloatingAddress{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return as.Status().Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(status)))
}

const (
	holdA  = `{"status":{"sequence":1,"holder":{"nodeName":"node-a","eniID":"eni-0000000000000000a","since":"2026-01-01T00:00:00Z"}}}`
	moveB  = `{"status":{"sequence":2,"holder":{"nodeName":"node-b","eniID":"eni-0000000000000000b","since":"2026-01-01T00:00:00Z"}}}`
	letGo  = `{"status":{"sequence":2,"holder":null}}`
	rivalB = `{"status":{"contender":{"nodeName":"node-b","eniID":"eni-0000000000000000b","since":"2026-01-01T00:00:00Z"}}}`
	yield  = `{"status":{"contender":null}}`
)

// TestAgentsWriteTheAddressesOfTheirNode tries what the agents of two nodes may write about an address that node-a has.
func TestAgentsWriteTheAddressesOfTheirNode(t *testing.T) {
	admin := everything(t, server.Config)
	guardAgents(t, admin)
	a := everything(t, withToken(agentToken(t, admin, "node-a")))
	b := everything(t, withToken(agentToken(t, admin, "node-b")))

	for name, tc := range map[string]struct {
		before []string // writes of the administrator
		as     client.Client
		write  string
		says   string // "" if the write is allowed
	}{
		"the node of the agent becomes the holder":          {as: a, write: holdA},
		"it takes the address of another node":              {before: []string{holdA}, as: b, write: moveB},
		"the holder lets go":                                {before: []string{holdA}, as: a, write: letGo},
		"another node becomes a contender":                  {before: []string{holdA}, as: b, write: rivalB},
		"the contender yields":                              {before: []string{holdA, rivalB}, as: b, write: yield},
		"an agent makes another node the holder":            {as: b, write: holdA, says: "of its own node only"},
		"an agent empties the holder of another node":       {before: []string{holdA}, as: b, write: letGo, says: "of its own node only"},
		"an agent makes another node a contender":           {before: []string{holdA}, as: a, write: rivalB, says: "of its own node only"},
		"an agent removes the contender of another node":    {before: []string{holdA, rivalB}, as: a, write: yield, says: "of its own node only"},
		"an agent confirms its holder without a new number": {as: a, write: strings.Replace(holdA, `"sequence":1,`, "", 1), says: "sequence must grow by one"},
		"an agent jumps ahead in the numbers":               {as: a, write: strings.Replace(holdA, `"sequence":1,`, `"sequence":9,`, 1), says: "sequence must grow by one"},
		"an agent changes the number alone":                 {before: []string{holdA}, as: a, write: `{"status":{"sequence":2}}`, says: "sequence must grow by one"},
		"an agent writes the assignment":                    {as: a, write: `{"status":{"assignment":{"eniID":"eni-1","sequence":0}}}`, says: "status.holder, status.contender and status.sequence only"},
		"an agent writes conditions":                        {as: a, write: `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"X","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, says: "status.holder, status.contender and status.sequence only"},
		"a holder without an interface":                     {as: a, write: strings.Replace(holdA, "eni-0000000000000000a", "x", 1), says: "eniID"},
	} {
		t.Run(name, func(t *testing.T) {
			address := newAddress("10.0.4.200")
			must(t, a.Create(t.Context(), address))
			t.Cleanup(func() { removeAddress(t, admin, address.Name) })
			for _, write := range tc.before {
				must(t, writeAddress(t, admin, address.Name, write))
			}
			err := writeAddress(t, tc.as, address.Name, tc.write)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("the write ends with %v, want %q", err, tc.says)
			}
		})
	}
}

// removeAddress removes an address and its finalizer.
func removeAddress(t *testing.T, admin client.Client, name string) {
	t.Helper()
	object := &v1alpha1.FloatingAddress{ObjectMeta: metav1.ObjectMeta{Name: name}}
	ctx := context.Background() // that of the test has ended
	_ = admin.Delete(ctx, object)
	_ = admin.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
}

// TestAgentsMakeBareAddresses tries the objects that an agent may create.
func TestAgentsMakeBareAddresses(t *testing.T) {
	admin := everything(t, server.Config)
	guardAgents(t, admin)
	agent := everything(t, withToken(agentToken(t, admin, "node-a")))
	for name, tc := range map[string]struct {
		change func(*v1alpha1.FloatingAddress)
		says   string
	}{
		"bare":               {func(*v1alpha1.FloatingAddress) {}, ""},
		"with a status":      {func(f *v1alpha1.FloatingAddress) { f.Status.Sequence = 7 }, ""}, // the API server drops it
		"with a label":       {func(f *v1alpha1.FloatingAddress) { f.Labels = map[string]string{"a": "b"} }, "no other metadata"},
		"with an annotation": {func(f *v1alpha1.FloatingAddress) { f.Annotations = map[string]string{"a": strings.Repeat("x", 9999)} }, "no other metadata"},
		"with an owner": {func(f *v1alpha1.FloatingAddress) {
			f.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}}
		}, "no other metadata"},
		"with another holdup": {func(f *v1alpha1.FloatingAddress) { f.Finalizers = append(f.Finalizers, "example.com/keep") }, "no other metadata"},
		"under another name":  {func(f *v1alpha1.FloatingAddress) { f.Name = "mine" }, "SUBNET-ADDRESS"},
		"of IPv6":             {func(f *v1alpha1.FloatingAddress) { f.Spec.Address, f.Name = "fd00::1", addressSubnet+"-fd00" }, "address"},
		"of no subnet":        {func(f *v1alpha1.FloatingAddress) { f.Spec.SubnetID, f.Name = "net", "net-"+f.Spec.Address }, "subnetID"},
	} {
		t.Run(name, func(t *testing.T) {
			address := newAddress("10.0.4.201")
			tc.change(address)
			err := agent.Create(t.Context(), address)
			t.Cleanup(func() { removeAddress(t, admin, address.Name) })
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("the write ends with %v, want %q", err, tc.says)
			}
			if err == nil && address.Status.Sequence != 0 {
				t.Errorf("the object has status %+v", address.Status)
			}
			if err := agent.Delete(t.Context(), newAddress("10.0.4.201")); !apierrors.IsForbidden(err) {
				t.Errorf("the agent deletes it: %v", err)
			}
		})
	}
}

// TestAnAddressBeingDeletedGetsNoHolder deletes an address over the version without a holder. An agent that read that
// version, or the object that is being deleted, writes nothing.
func TestAnAddressBeingDeletedGetsNoHolder(t *testing.T) {
	admin := everything(t, server.Config)
	guardAgents(t, admin)
	agent := everything(t, withToken(agentToken(t, admin, "node-a")))
	address := newAddress("10.0.4.202")
	must(t, agent.Create(t.Context(), address))
	t.Cleanup(func() { removeAddress(t, admin, address.Name) })
	read := address.ResourceVersion
	must(t, writeAddress(t, agent, address.Name, holdA))
	if err := admin.Delete(t.Context(), address, client.Preconditions{ResourceVersion: &read}); !apierrors.IsConflict(err) {
		t.Errorf("the deletion over the version before the holder ends with %v", err)
	}
	must(t, writeAddress(t, agent, address.Name, letGo))
	must(t, admin.Get(t.Context(), client.ObjectKeyFromObject(address), address))
	must(t, admin.Delete(t.Context(), address, client.Preconditions{UID: &address.UID, ResourceVersion: ptr.To(address.ResourceVersion)}))
	write := strings.Replace(holdA, `"sequence":1`, `"sequence":3`, 1)
	if err := writeAddress(t, agent, address.Name, write); err == nil || !strings.Contains(err.Error(), "being deleted") {
		t.Errorf("a holder of an object that is being deleted: %v", err)
	}
}

// TestAnAgentFindsItsAddressesByTheirNode lists by the fields that name a node, as an agent that starts does.
func TestAnAgentFindsItsAddressesByTheirNode(t *testing.T) {
	admin := everything(t, server.Config)
	for address, writes := range map[string][]string{"10.0.4.210": {holdA}, "10.0.4.211": {holdA, moveB}, "10.0.4.212": {holdA, rivalB}} {
		object := newAddress(address)
		must(t, admin.Create(t.Context(), object))
		t.Cleanup(func() { removeAddress(t, admin, object.Name) })
		for _, write := range writes {
			must(t, writeAddress(t, admin, object.Name, write))
		}
	}
	for field, want := range map[string]string{
		"status.holder.nodeName": "10.0.4.211", "status.contender.nodeName": "10.0.4.212",
	} {
		var list v1alpha1.FloatingAddressList
		must(t, admin.List(t.Context(), &list, client.MatchingFields{field: "node-b"}))
		if len(list.Items) != 1 || list.Items[0].Spec.Address != want {
			t.Errorf("%s=node-b selects %d objects", field, len(list.Items))
		}
	}
}
