#!/bin/bash
# Copyright The multieni Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds the function of lifecycle-hook.yaml and puts its archive into a bucket.
#
#   deploy/cloudformation/upload-lambda.sh BUCKET [KEY]
#
# BUCKET is LambdaS3Bucket of the template, KEY its LambdaS3Key, lifecycle-hook.zip by default. ARCHITECTURE is its
# LambdaArchitecture: arm64 by default, or x86_64. It needs go, zip, and the AWS command line with access to the bucket.
set -euo pipefail

bucket=${1:?name the bucket: $0 BUCKET [KEY]}
key=${2:-lifecycle-hook.zip}
case ${ARCHITECTURE:-arm64} in
  arm64) goarch=arm64 ;;
  x86_64) goarch=amd64 ;;
  *) echo "ARCHITECTURE=$ARCHITECTURE: it can be arm64 or x86_64" >&2; exit 1 ;;
esac

cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
GOOS=linux GOARCH=$goarch CGO_ENABLED=0 go build -trimpath -tags lambda.norpc -ldflags='-s -w' -o "$folder/bootstrap" ./cmd/lifecycle-hook
zip --quiet --junk-paths "$folder/lifecycle-hook.zip" "$folder/bootstrap"
aws s3 cp --only-show-errors "$folder/lifecycle-hook.zip" "s3://$bucket/$key"
echo "uploaded: LambdaS3Bucket=$bucket LambdaS3Key=$key LambdaArchitecture=${ARCHITECTURE:-arm64}"
