// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// metadataOfOthers are patches of metadata that no agent may write.
var metadataOfOthers = map[string]string{
	"label that attracts pods":        `{"metadata":{"labels":{"ng":"gpu"}}}`,
	"label that kubelets may not set": `{"metadata":{"labels":{"node-restriction.kubernetes.io/tenant":"secret"}}}`,
	"label changed":                   `{"metadata":{"labels":{"pool":"gpu"}}}`,
	"label removed":                   `{"metadata":{"labels":{"pool":null}}}`,
	"label of an interface":           `{"metadata":{"labels":{"interface.networking.k8s.aws/net-web":"eni-1"}}}`,
	"annotation of interfaces":        `{"metadata":{"annotations":{"networking.k8s.aws/interfaces":"{}"}}}`,
	"annotation":                      `{"metadata":{"annotations":{"note":"x"}}}`,
	"pause":                           `{"metadata":{"annotations":{"networking.k8s.aws/paused":""}}}`,
	"finalizer":                       `{"metadata":{"finalizers":["example.com/keep"]}}`,
	"owner":                           `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"y"}]}}`,
}

// guarded is a kind that an agent may write a part of.
type guarded struct {
	kind schema.GroupVersionKind
	// others are patches of its spec and status that no agent may write; own are patches that the agent of the node may
	// write.
	others, own map[string]string
}

// guards are the kinds by the resource that the agents' role names.
var guards = map[string]guarded{
	"nodes": {
		kind: corev1.SchemeGroupVersion.WithKind("Node"),
		others: map[string]string{
			"unschedulable":        `{"spec":{"unschedulable":true}}`,
			"provider ID":          `{"spec":{"providerID":"aws:///us-west-2a/i-0123456789abcdef1"}}`,
			"pod CIDR":             `{"spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24"]}}`,
			"taint of others":      `{"spec":{"taints":[{"key":"networking.k8s.aws/not-ready","effect":"NoSchedule"}]}}`,
			"taint added":          `{"spec":{"taints":[{"key":"dedicated","effect":"NoSchedule"},{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"},{"key":"x","effect":"NoExecute"}]}}`,
			"condition of kubelet": `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
			"capacity":             `{"status":{"capacity":{"cpu":"64"}}}`,
			"allocatable":          `{"status":{"allocatable":{"cpu":"64"}}}`,
			"another resource":     `{"status":{"capacity":{"addresses.networking.k8s.aws/n3":"31","example.com/gpu":"8"}}}`,
			"addresses":            `{"status":{"addresses":[{"type":"InternalIP","address":"10.9.9.9"}]}}`,
			"daemon endpoint":      `{"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":1}}}}`,
			"phase":                `{"status":{"phase":"Running"}}`,
			"condition":            `{"status":{"conditions":[{"type":"networking.k8s.aws/InterfacesReady","status":"True"}]}}`,
			"startup taint":        `{"spec":{"taints":[{"key":"dedicated","effect":"NoSchedule"}]}}`,
		},
		own: map[string]string{
			"capacity": `{"status":{"capacity":{"addresses.networking.k8s.aws/n3":"31"}}}`,
		},
	},
	"networkinterfaces": {
		kind: v1alpha1.SchemeGroupVersion.WithKind("NetworkInterface"),
		others: map[string]string{
			"instance":            `{"spec":{"zone":"us-west-2b"}}`,
			"node":                `{"spec":{"nodeName":"node-b"}}`,
			"closed":              `{"spec":{"pods":{"closed":true}}}`,
			"MAC address":         `{"status":{"macAddress":"02:00:00:00:00:01"}}`,
			"evidence":            `{"status":{"evidence":"Launched"}}`,
			"prefixes":            `{"status":{"pods":{"prefixes":["10.0.4.48/28"]}}}`,
			"observed generation": `{"status":{"observedGeneration":7}}`,
			"conditions":          `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"X","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
			"field owners":        `{"metadata":{"managedFields":[{}]}}`,
			"deletion":            `{"metadata":{"annotations":{"networking.k8s.aws/on-delete":"Keep"}}}`,
		},
		own: map[string]string{
			"answer": `{"status":{"node":{"agent":{"bootID":"b","processID":"q"},"open":true}}}`,
		},
	},
}

// No resource, subresource and verb of the shipped role lets an agent write to another node, create an object, or write
// more to its own node than the agent must. A rule that this test does not know fails it.
func TestAgentRoleWritesNothingElse(t *testing.T) {
	admin := everything(t, server.Config)
	for _, file := range []string{"config/rbac/agent.yaml", "config/admission/agent.yaml"} {
		applyFile(t, admin, file)
	}
	for _, name := range []string{"node-a", "node-b"} {
		provide(t, admin, name)
	}
	own := everything(t, withToken(agentToken(t, admin, "node-a")))
	other := everything(t, withToken(agentToken(t, admin, "node-b")))
	policyInForce(t, everything(t, withToken(agentToken(t, admin, ""))))

	tried := 0
	for _, rule := range agentRules(t) {
		for _, resource := range rule.Resources {
			resource, part, _ := strings.Cut(resource, "/")
			if allowed := addressVerbs[part]; resource == "floatingaddresses" && slices.Equal(rule.Verbs, allowed) {
				continue // TestAgentsWriteTheAddressesOfTheirNode
			}
			guard, known := guards[resource]
			if !known || len(rule.ResourceNames)+len(rule.NonResourceURLs) > 0 || !slices.Equal(rule.APIGroups, []string{guard.kind.Group}) {
				t.Fatalf("the role has a rule that this test cannot judge: %v", rule)
			}
			for _, verb := range rule.Verbs {
				switch verb {
				case "get", "list", "watch": // accepted, docs/security.md says why
				case "patch":
					fence := fence{admin: admin, kind: guard.kind, part: part}
					fence.refuses(t, own, metadataOfOthers, guard.others)
					fence.refuses(t, other, metadataOfOthers, guard.others, guard.own)
					fence.createsNothing(t, own)
					tried++
				default:
					t.Errorf("the role allows %s of %s, for which this test has no attempts", verb, resource)
				}
			}
		}
	}
	if tried == 0 {
		t.Error("the role allows no write: this test reads the wrong rules")
	}
}

// fence tries writes to node-a's object of one kind through one part: the object itself, or a subresource.
type fence struct {
	admin client.Client
	kind  schema.GroupVersionKind
	part  string
}

// refuses tries each patch, as a merge patch and as a forced apply, and asserts that the object keeps its resource
// version.
func (f fence) refuses(t *testing.T, agent client.Client, patches ...map[string]string) {
	t.Helper()
	before := f.object(t, "node-a")
	for _, list := range patches {
		for name, patch := range list {
			for _, how := range []types.PatchType{types.MergePatchType, types.ApplyPatchType} {
				err := f.patch(t, agent, "node-a", how, patch)
				// The API server itself answers an apply of field owners as a bad request.
				if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err) {
					t.Errorf("%s through %s/%s as %s fails for another reason than the fence: %v", name, f.kind.Kind, f.part, how, err)
				}
				if diff := cmp.Diff(before, f.object(t, "node-a")); diff != "" {
					t.Errorf("%s through %s/%s as %s is written (%v): %s", name, f.kind.Kind, f.part, how, err, diff)
					before = f.object(t, "node-a")
				}
			}
		}
	}
}

// createsNothing applies an object that does not exist, which needs only the verb patch until the API server creates
// it.
func (f fence) createsNothing(t *testing.T, agent client.Client) {
	t.Helper()
	err := f.patch(t, agent, "node-c", types.ApplyPatchType, `{"metadata":{"labels":{"interface.networking.k8s.aws/net-web":"eni-1"}}}`)
	if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		t.Errorf("apply to %s/%s of a node that is not there: %v, want a refusal", f.kind.Kind, f.part, err)
	}
}

func (f fence) patch(t *testing.T, agent client.Client, name string, how types.PatchType, content string) error {
	t.Helper()
	object := f.empty(name)
	var options []client.SubResourcePatchOption
	if how == types.ApplyPatchType {
		content = f.applied(t, name, content)
		options = append(options, client.FieldOwner("stranger"), client.ForceOwnership)
	}
	patch := client.RawPatch(how, []byte(content))
	if f.part != "" {
		return agent.SubResource(f.part).Patch(t.Context(), object, patch, options...)
	}
	var whole []client.PatchOption
	for _, option := range options {
		whole = append(whole, option.(client.PatchOption))
	}
	return agent.Patch(t.Context(), object, patch, whole...)
}

// applied turns a merge patch into an apply configuration.
func (f fence) applied(t *testing.T, name, content string) string {
	t.Helper()
	object := f.empty(name)
	if err := json.Unmarshal([]byte(content), &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetName(name)
	out, err := json.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func (f fence) empty(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(f.kind)
	object.SetName(name)
	return object
}

func (f fence) object(t *testing.T, name string) map[string]any {
	t.Helper()
	return get(t, f.admin, f.empty(name)).Object
}

// agentRules reads the rules of the shipped role.
func agentRules(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for document := range strings.SplitSeq(text(t, "config/rbac/agent.yaml"), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		if role.Kind == "Role" {
			t.Error("agents have a Role, which this test does not judge")
		}
		rules = append(rules, role.Rules...)
	}
	return rules
}
