// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package assets finds, downloads or builds the programs of a Kubernetes control plane
// that tests and the demo run: kube-apiserver, etcd and kubectl; and it builds the CNI plugins that they call.
//
// [Dir] is all a caller needs. It obeys KUBEBUILDER_ASSETS, the variable that
// controller-runtime's envtest reads; otherwise it downloads what setup-envtest
// downloads, or compiles the module in dev/controlplane, once per version, into
// a cache folder outside the checkout.
// The steps, in reading order:
//
//   - prebuilt.go: what the index of prebuilt programs has
//   - source.go: where the module is, and the key that names its build
//   - build.go: one build
//   - cni.go: the plugins of the CNI project, Multus and whereabouts, which dev/cni compiles to
//   - progress.go: what a person sees during the minutes that a first build takes
package assets
