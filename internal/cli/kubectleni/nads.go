// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/podnetwork"
	"github.com/multieni/multieni/internal/core/report"
)

func newNADs() *cobra.Command {
	var s screen
	c := &cobra.Command{
		Use:   "nads [NODEENI]...",
		Short: "Print the NetworkAttachmentDefinitions of NodeENIs with pods",
		Long: `Print the NetworkAttachmentDefinitions that the controller generates for NodeENIs with
spec.pods: one for each network in each of the namespaces that the NodeENI names. Use it if the
controller has no permission to write them, or to preview them. For a NodeENI without namespaces,
the definition has no namespace, for kubectl apply -n. What you apply is yours: the controller
neither changes nor deletes it.

The command only reads the Kubernetes API.`,
		Example: `  kubectl eni nads
  kubectl eni nads n3 | kubectl apply -f -`,
		ValidArgsFunction: s.completeNames(nodeENIList),
		RunE: s.show(func(c *cobra.Command, api client.Client, names []string) (textOutput, error) {
			return renderNADs(c, api, names)
		}),
	}
	s.bind(c, "yaml", "json")
	return c
}

// renderNADs renders the definitions of the named NodeENIs, or of all that have pods.
func renderNADs(c *cobra.Command, api client.Reader, names []string) (nads, error) {
	var nodeENIs v1alpha1.NodeENIList
	if err := api.List(c.Context(), &nodeENIs); err != nil {
		return nads{}, unlisted("NodeENIs", err)
	}
	for _, name := range names {
		at := slices.IndexFunc(nodeENIs.Items, func(n v1alpha1.NodeENI) bool { return n.Name == name })
		switch {
		case at < 0:
			return nads{}, fmt.Errorf("there is no NodeENI %s; see kubectl get nodeeni", name)
		case nodeENIs.Items[at].Spec.Pods == nil:
			return nads{}, fmt.Errorf("NodeENI %s has no spec.pods, so it has no NetworkAttachmentDefinition; see "+
				"kubectl explain nodeeni.spec.pods", name)
		case nodeENIs.Items[at].Spec.Pods.Attachment == v1alpha1.PodAttachmentObserved:
			return nads{}, fmt.Errorf("NodeENI %s has pods.attachment Observed, so its NetworkAttachmentDefinition is yours; "+
				"docs/own-addresses.md has one", name)
		}
	}
	var all nads
	for _, n := range nodeENIs.Items {
		if n.Spec.Pods == nil || len(names) > 0 && !slices.Contains(names, n.Name) {
			continue
		}
		namespaces, err := podNamespaces(c, api, n.Spec.Pods)
		if err != nil {
			return nads{}, err
		}
		for _, namespace := range namespaces {
			all.Items = append(all.Items, podnetwork.Render(&n, namespace)...)
		}
	}
	return all, nil
}

// podNamespaces returns the namespaces that get definitions; an empty name if the NodeENI names none.
func podNamespaces(c *cobra.Command, api client.Reader, pods *v1alpha1.NodeENIPods) ([]string, error) {
	if len(pods.NamespaceSelector) == 0 {
		if len(pods.Namespaces) == 0 {
			return []string{""}, nil
		}
		return pods.Namespaces, nil
	}
	labels := client.MatchingLabels{}
	for key, value := range pods.NamespaceSelector {
		labels[key] = string(value)
	}
	var found corev1.NamespaceList
	if err := api.List(c.Context(), &found, labels); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	var names []string
	for _, namespace := range found.Items {
		names = append(names, namespace.Name)
	}
	return names, nil
}

// nads are NetworkAttachmentDefinitions.
type nads struct {
	Items []*unstructured.Unstructured
}

// MarshalJSON writes a Kubernetes List.
func (n nads) MarshalJSON() ([]byte, error) {
	items := []any{}
	for _, definition := range n.Items {
		items = append(items, definition.Object)
	}
	return json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
}

// Text prints the definitions as YAML documents, which kubectl apply reads.
func (n nads) Text(report.Page) string {
	if len(n.Items) == 0 {
		return "# No NodeENI has spec.pods.\n"
	}
	var documents []string
	for _, definition := range n.Items {
		document, err := yaml.Marshal(definition.Object)
		if err != nil {
			panic(err) // maps of strings are always YAML
		}
		documents = append(documents, string(document))
	}
	return strings.Join(documents, "---\n")
}
