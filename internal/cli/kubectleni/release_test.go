// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// deleted has the interface of the ready cluster as held, and as to be deleted.
func deleted(t *testing.T, edit func(*v1alpha1.NetworkInterface)) *cluster {
	t.Helper()
	c := readyCluster(t)
	c.change(func(i *v1alpha1.NetworkInterface) {
		i.Status.Node.Open = true
		edit(i)
	})
	must(t, c.Delete(t.Context(), &v1alpha1.NetworkInterface{ObjectMeta: interfaceOfMultus(multus()).ObjectMeta}))
	return c
}

// held reports whether the interface of the cluster is held.
func (c *cluster) held() bool {
	c.t.Helper()
	var i v1alpha1.NetworkInterface
	must(c.t, c.Get(c.t.Context(), client.ObjectKey{Name: nameOfMultus}, &i))
	return i.Held()
}

func TestReleaseEndsTheHold(t *testing.T) {
	takenOver := func(i *v1alpha1.NetworkInterface) {
		i.Status.Node, i.Status.Evidence = nil, v1alpha1.EvidenceTakenOver
	}
	for name, tc := range map[string]struct {
		edit   func(*v1alpha1.NetworkInterface)
		args   []string
		answer string
		fails  string
		says   string
		held   bool
	}{
		"no ends nothing":          {answer: "n\n", fails: "nothing was done", says: "Is the agent of node node-a1 gone for good", held: true},
		"without an answer":        {fails: "read the answer", held: true},
		"yes ends it":              {answer: "yes\n", says: "released " + nameOfMultus},
		"--yes asks nothing":       {args: []string{"--yes"}, says: "released " + nameOfMultus},
		"of what was taken over":   {edit: takenOver, args: []string{"--yes"}, says: "released " + nameOfMultus},
		"of what nothing holds":    {edit: func(i *v1alpha1.NetworkInterface) { i.Status.Node.Open = false }, says: "nothing holds " + nameOfMultus},
		"of an interface in doubt": {edit: takenOver, answer: "no\n", fails: "nothing was done", held: true},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.edit == nil {
				tc.edit = func(*v1alpha1.NetworkInterface) {}
			}
			c := deleted(t, tc.edit)
			r := run(t, tc.answer, append([]string{"release", nameOfMultus}, tc.args...)...)
			if (r.failure != nil) != (tc.fails != "") {
				t.Fatalf("failure: %v, want %q", r.failure, tc.fails)
			}
			if r.failure != nil {
				wants(t, r.failure.Error(), tc.fails)
			}
			wants(t, r.err, tc.says)
			if held := c.held(); held != tc.held {
				t.Errorf("held is %t, want %t", held, tc.held)
			}
		})
	}
}

func TestReleaseRefusesAnInterfaceThatStays(t *testing.T) {
	c := readyCluster(t)
	c.change(func(i *v1alpha1.NetworkInterface) { i.Status.Node.Open = true })
	r := run(t, "", "release", nameOfMultus, "--yes")
	if r.failure == nil || !c.held() {
		t.Fatalf("failure: %v, held: %t", r.failure, c.held())
	}
	wants(t, r.failure.Error(), "is not being deleted", "kubectl delete eni "+nameOfMultus)
	r = run(t, "", "release", "nobody")
	if r.failure == nil {
		t.Fatal("it did not fail")
	}
	wants(t, r.failure.Error(), "there is no NetworkInterface nobody")
}

func TestReleaseNeedsPermissions(t *testing.T) {
	c := deleted(t, func(*v1alpha1.NetworkInterface) {})
	c.denied = []string{"/networkinterfaces/" + nameOfMultus + "/status"}
	if r := run(t, "", "release", nameOfMultus, "-y"); r.failure == nil {
		t.Error("it did not fail")
	}
	c.denied = []string{"/networkinterfaces/" + nameOfMultus}
	r := run(t, "", "release", nameOfMultus, "-y")
	if r.failure == nil {
		t.Fatal("it did not fail")
	}
	wants(t, r.failure.Error(), "read NetworkInterface")
}
