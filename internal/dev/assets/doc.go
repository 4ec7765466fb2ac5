// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package assets finds, downloads or builds the programs of a Kubernetes control plane
// that tests and the demo run: kube-apiserver, etcd and kubectl; and it builds the CNI plugins that they call.
//
// [Dir] is all a caller needs. It uses KUBEBUILDER_ASSETS, the variable that controller-runtime's envtest reads;
// otherwise it downloads the same programs as setup-envtest, or compiles the module in dev/controlplane, once per
// version, into a cache folder outside the checkout. The steps, in reading order:
//
//   - prebuilt.go: the prebuilt programs of the index
//   - source.go: the path of the module, and the key that names its build
//   - build.go: one build
//   - release.go: the control planes of other releases of Kubernetes
//   - cni.go: the plugins of the CNI project, Multus and whereabouts, which are compiled from dev/cni
//   - progress.go: the display during the minutes of a first build
package assets
