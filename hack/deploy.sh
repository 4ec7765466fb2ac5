#!/bin/bash
# Copyright The multieni Authors.
# SPDX-License-Identifier: Apache-2.0

# Deploys multieni to the cluster of the current kubectl context, without helm.
#
#   IMAGE=REGISTRY/multieni:TAG hack/deploy.sh   build the image, push it, deploy it
#   USE_GHCR=true hack/deploy.sh                 deploy the published image
#
# AWS_REGION, if set, is the region to work in. KUBECTL is the kubectl to use.
set -euo pipefail
cd "$(dirname "$0")/.."

kubectl=${KUBECTL:-kubectl}
version=$(sed -n 's/^appVersion: //p' charts/multieni/Chart.yaml)
if [[ ${USE_GHCR:-} == true ]]; then
  image=${IMAGE:-ghcr.io/multieni/multieni:$version}
else
  image=${IMAGE:?set IMAGE to where your registry takes it, for example IMAGE=registry.example.com/multieni:v1; or USE_GHCR=true for the published image}
  make image PUSH="$image"
fi

echo "deploying $image"
"$kubectl" apply --server-side -f deploy/crds/networking.k8s.aws_nodeenis_crd.yaml
"$kubectl" wait --for=condition=Established --timeout=60s crd/nodeenis.networking.k8s.aws crd/networkinterfaces.networking.k8s.aws
for manifest in deploy/deployment.yaml deploy/eni-manager-daemonset.yaml; do
  sed -e "s|\${UNIFIED_IMAGE}|$image|g" -e "s|{name: AWS_REGION, value: \"\"}|{name: AWS_REGION, value: \"${AWS_REGION:-}\"}|" "$manifest" | "$kubectl" apply -f -
done
echo "declare interfaces, for example: kubectl apply -f examples/single-subnet.yaml"
