// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	networkingv1alpha1ac "github.com/multieni/multieni/api/applyconfiguration/api/v1alpha1"
	"github.com/multieni/multieni/api/v1alpha1"
)

// The columns of `kubectl get nodeeni` and `kubectl get eni -o wide`, without the age.
func TestColumns(t *testing.T) {
	c := connect(t)
	nodeENI := plainNodeENI("columns")
	create(t, c, nodeENI)
	applyStatus(t, c, networkingv1alpha1ac.NodeENI(nodeENI.Name).WithStatus(networkingv1alpha1ac.NodeENIStatus().
		WithNodes(3).WithDesired(6).WithAttached(4).WithReady(4).WithBlocked(2).
		WithConditions(condition(v1alpha1.ConditionReady, metav1.ConditionFalse))), controller)
	made := makeInterface(t, everything(t, server.Config), "columns", "node-a1")
	made.now(observed(eniA).WithSubnetID("subnet-00000000000000001").
		WithSlot(networkingv1alpha1ac.InterfaceSlot().WithNetworkCardIndex(1).WithDeviceIndex(2)).
		WithAddresses(networkingv1alpha1ac.InterfaceAddresses().WithPrivateIP("10.0.4.17")).
		WithConditions(condition(v1alpha1.ConditionReady, metav1.ConditionTrue)))
	must(t, made.report(made.admin, made.read().ResourceVersion, networkingv1alpha1ac.NodeReport().WithOpen(true).
		WithAgent(networkingv1alpha1ac.AgentProcess().WithBootID("b").WithProcessID("p")).
		WithLink(networkingv1alpha1ac.LinkReport().WithState(v1alpha1.LinkReady).WithReason("LinkReady")).
		WithPods(networkingv1alpha1ac.PodsReport().WithReady(true).WithUsed(5).WithWanted(2).WithFree(27))))

	rows := map[string]struct{ narrow, wide map[string]any }{
		"nodeenis": {
			narrow: map[string]any{"Name": "columns", "Ready": "False", "Desired": 6.0, "Attached": 4.0, "Nodes": 3.0},
			wide:   map[string]any{"Blocked": 2.0, "Reason": "Attached"},
		},
		"networkinterfaces": {
			narrow: map[string]any{
				"Name": "columns", "Node": "node-a1", "NodeENI": "n3", "ENI": eniA, "Device": 2.0, "Address": "10.0.4.17",
				"Ready": "True", "Link": "Ready",
			},
			wide: map[string]any{
				"Instance": "i-0123456789abcdef0", "Subnet": "subnet-00000000000000001", "Card": 1.0, "Wanted": 2.0, "Free": 27.0,
				"Reason": "Attached",
			},
		},
	}
	for resource, want := range rows {
		t.Run(resource, func(t *testing.T) {
			narrow, wide := columns(t, resource, "columns")
			if diff := cmp.Diff(want.narrow, narrow); diff != "" {
				t.Errorf("columns (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want.wide, wide); diff != "" {
				t.Errorf("columns with -o wide (-want +got):\n%s", diff)
			}
		})
	}
}

// columns asks the server to print an object and returns its cells by column: those always shown, and the wide ones.
func columns(t *testing.T, resource, name string) (narrow, wide map[string]any) {
	t.Helper()
	table := tableOf(t, resource, name)
	narrow, wide = map[string]any{}, map[string]any{}
	for i, column := range table.ColumnDefinitions {
		switch {
		case column.Name == "Age":
		case column.Priority == 0:
			narrow[column.Name] = table.Rows[0].Cells[i]
		default:
			wide[column.Name] = table.Rows[0].Cells[i]
		}
	}
	return narrow, wide
}

func tableOf(t *testing.T, resource, name string) metav1.Table {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.JoinPath(server.Config.Host, "apis/networking.k8s.aws/v1alpha1", resource, name)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := httpClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	table := metav1.Table{}
	if err := json.NewDecoder(response.Body).Decode(&table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 1 {
		t.Fatalf("%s: %d rows, status %s", address, len(table.Rows), response.Status)
	}
	return table
}
