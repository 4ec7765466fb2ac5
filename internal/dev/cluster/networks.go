// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/awssim/namespace"
	"github.com/multieni/multieni/internal/dev/nodenet"
)

//go:embed network-attachment-definition.yaml
var attachmentDefinitionYAML []byte

// startNetworks gives nodes a network if that is possible. Their agents wait for the nodes.
func (c *Cluster) startNetworks(ctx context.Context, opts Options) error {
	if !opts.Networks {
		c.NoNetworks = errors.New("none were asked for")
		c.NoPods = c.NoNetworks
		return nil
	}
	c.NoNetworks = namespace.Possible()
	if c.NoNetworks != nil {
		c.NoPods = c.NoNetworks
		return nil //nolint:nilerr // a cluster without networks is usable, and has the reason
	}
	programs, err := c.podNetworks(ctx, opts)
	c.NoPods = err
	c.Networks = filepath.Join(opts.Dir, "net")
	network, err := nodenet.Start(ctx, nodenet.Options{
		Config: c.Config, Simulator: c.Simulator, Dir: c.Networks, Programs: programs, Logger: opts.Logger,
	})
	if err != nil {
		return err
	}
	c.onStop(network.Stop)
	return nil
}

// podNetworks returns the programs that give pods their networks, once the API server has the kind of Multus. An
// existing cluster must have it.
func (c *Cluster) podNetworks(ctx context.Context, opts Options) (*nodenet.Programs, error) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(attachmentDefinitionYAML, &definition); err != nil {
		return nil, err
	}
	if opts.Kubeconfig == "" {
		if err := installDefinitions(c.Config, &definition); err != nil {
			return nil, err
		}
	} else if err := hasDefinition(ctx, c.Config, definition.Name); err != nil {
		return nil, err
	}
	return nodenet.BuildPrograms(ctx, opts.Progress)
}

// hasDefinition returns an error if the API server does not have a definition.
func hasDefinition(ctx context.Context, config *rest.Config, name string) error {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return err
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	if err := api.Get(ctx, client.ObjectKey{Name: name}, &apiextensionsv1.CustomResourceDefinition{}); err != nil {
		return fmt.Errorf("pods get networks in a cluster with Multus: %w", err)
	}
	return nil
}

func installDefinitions(config *rest.Config, definitions ...*apiextensionsv1.CustomResourceDefinition) error {
	// The default of ten seconds is too short while a compiler runs.
	options := envtest.CRDInstallOptions{CRDs: definitions, MaxTime: serverTimeout}
	if _, err := envtest.InstallCRDs(config, options); err != nil {
		return fmt.Errorf("install the definitions of kinds: %w", err)
	}
	return nil
}
