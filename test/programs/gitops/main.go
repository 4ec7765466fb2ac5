// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gitops does with objects what Flux and Argo CD do, for the story of docs/gitops.md:
//
//	gitops apply FILE           applies as Flux's kustomize-controller, and prints what Flux did to each object
//	gitops health PAGE OBJECT   prints the health of a live object for each of the two
//	gitops flux PAGE            checks the manifests of Flux on a page against the types of Flux
//	gitops argocd PAGE          prints the manifests of Argo CD on a page
//
// OBJECT is RESOURCE/NAME, with the plural of a cluster-scoped kind of ours.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	// The definitions of Argo CD are files of this module.
	_ "github.com/argoproj/argo-cd/v3/resource_customizations"
)

func main() {
	log.SetFlags(0)
	ctx := context.Background()
	var err error
	switch args := append(os.Args[1:], "", "", ""); args[0] {
	case "apply":
		err = apply(ctx, args[1])
	case "health":
		err = health(ctx, args[1], args[2])
	case "flux":
		err = flux(args[1])
	case "argocd":
		err = argocd(args[1])
	default:
		err = errors.New("usage: gitops apply FILE | health PAGE OBJECT | flux PAGE | argocd PAGE")
	}
	if err != nil {
		log.Fatal(err)
	}
}

func connect() (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{})
}

// apply does what kustomize-controller does with the objects of a Kustomization, with its options.
func apply(ctx context.Context, file string) error {
	api, err := connect()
	if err != nil {
		return err
	}
	reader, err := os.Open(file)
	if err != nil {
		return err
	}
	defer reader.Close()
	objects, err := utils.ReadObjects(reader)
	if err != nil {
		return err
	}
	const controller = "kustomize-controller"
	manager := ssa.NewResourceManager(api, nil, ssa.Owner{Field: controller, Group: kustomizev1.GroupVersion.Group})
	manager.SetOwnerLabels(objects, "networks", "flux-system")
	options := ssa.DefaultApplyOptions()
	options.Cleanup = ssa.ApplyCleanupOptions{
		Annotations: []string{corev1.LastAppliedConfigAnnotation},
		FieldManagers: []ssa.FieldManager{
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: controller, OperationType: metav1.ManagedFieldsOperationUpdate},
		},
		Exclusions: map[string]string{kustomizev1.GroupVersion.Group + "/ssa": kustomizev1.MergeValue},
	}
	changes, err := manager.ApplyAll(ctx, objects, options)
	if err != nil {
		return err
	}
	for _, change := range changes.Entries {
		fmt.Println(change.String())
	}
	return nil
}

// health prints the health of an object by the script of the page, and by kstatus.
func health(ctx context.Context, page, object string) error {
	resource, name, _ := strings.Cut(object, "/")
	kind, ok := map[string]string{
		"nodeenis": "NodeENI", "subnetreservations": "SubnetReservation", "awsnodetemplates": "AWSNodeTemplate",
	}[resource]
	if !ok {
		return fmt.Errorf("%s is no kind of ours that people write", resource)
	}
	api, err := connect()
	if err != nil {
		return err
	}
	live := &unstructured.Unstructured{}
	live.SetAPIVersion("networking.k8s.aws/v1alpha1")
	live.SetKind(kind)
	if err := api.Get(ctx, client.ObjectKey{Name: name}, live); err != nil {
		return err
	}
	script, err := healthScript(page)
	if err != nil {
		return err
	}
	argocd, err := assess(script, live.Object)
	if err != nil {
		return err
	}
	flux, err := status.Compute(live)
	if err != nil {
		return err
	}
	fmt.Printf("Argo CD: %s\nFlux: %s: %s\n", argocd, flux.Status, flux.Message)
	return nil
}

// healthScript returns the script of the ConfigMap argocd-cm on a page.
func healthScript(page string) (string, error) {
	for _, manifest := range printed(page) {
		var settings corev1.ConfigMap
		if yaml.Unmarshal([]byte(manifest), &settings) != nil || settings.Name != "argocd-cm" {
			continue
		}
		var kinds map[string]map[string]string
		if err := yaml.UnmarshalStrict([]byte(settings.Data["resource.customizations"]), &kinds); err != nil {
			return "", err
		}
		return kinds["networking.k8s.aws/*"]["health.lua"], nil
	}
	return "", fmt.Errorf("%s has no ConfigMap argocd-cm", page)
}

// flux reads each manifest of Flux on a page as Flux's controllers do, and refuses fields that they do not have.
func flux(page string) error {
	var errs []error
	for _, manifest := range printed(page) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(manifest), &kind); err != nil {
			return err
		}
		types := map[metav1.TypeMeta]any{
			{APIVersion: kustomizev1.GroupVersion.String(), Kind: "Kustomization"}: &kustomizev1.Kustomization{},
			{APIVersion: helmv2.GroupVersion.String(), Kind: "HelmRelease"}:        &helmv2.HelmRelease{},
			{APIVersion: sourcev1.GroupVersion.String(), Kind: "OCIRepository"}:    &sourcev1.OCIRepository{},
			{APIVersion: sourcev1.GroupVersion.String(), Kind: "GitRepository"}:    &sourcev1.GitRepository{},
		}
		switch object, known := types[kind]; {
		case known:
			errs = append(errs, yaml.UnmarshalStrict([]byte(manifest), object))
			fmt.Printf("%s %s\n", kind.APIVersion, kind.Kind)
		case strings.Contains(kind.APIVersion, ".fluxcd.io/"):
			errs = append(errs, fmt.Errorf("%s %s is no kind of Flux that this program knows", kind.APIVersion, kind.Kind))
		}
	}
	return errors.Join(errs...)
}

// argocd prints the manifests of a page that are in the namespace of Argo CD.
func argocd(page string) error {
	for _, manifest := range printed(page) {
		var object metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
			return err
		}
		if object.Namespace == "argocd" {
			fmt.Printf("---\n%s", manifest)
		}
	}
	return nil
}

// printed returns the YAML documents of a page.
func printed(page string) []string {
	text, err := os.ReadFile(page)
	if err != nil {
		log.Fatal(err)
	}
	var all []string
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		all = append(all, strings.Split(block, "---\n")...)
	}
	return all
}
