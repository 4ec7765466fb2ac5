#!/bin/bash
# Copyright The multieni Authors.
# SPDX-License-Identifier: Apache-2.0
#
# What user data does that gives its own instance an interface with the command line: the calls of scripts that AWS has
# published, in their order and with their waits. Usage: userdata.sh INSTANCE SUBNET GROUP [ADDRESS]
set -euo pipefail
instance=$1 subnet=$2 group=$3 address=${4:-}
ec2() { aws --endpoint-url "$AWS_ENDPOINT_URL" --output text ec2 "$@"; }

eni=$(ec2 create-network-interface --subnet-id "$subnet" --groups "$group" ${address:+--private-ip-address "$address"} \
  --query NetworkInterface.NetworkInterfaceId)
# The answer has the index of the network card in a second column.
read -r attachment _ < <(ec2 attach-network-interface --network-interface-id "$eni" --instance-id "$instance" --device-index 1)
ec2 modify-network-interface-attribute --network-interface-id "$eni" --attachment "AttachmentId=$attachment,DeleteOnTermination=true"
ec2 modify-network-interface-attribute --network-interface-id "$eni" --no-source-dest-check
ec2 create-tags --resources "$eni" --tags Key=node.k8s.amazonaws.com/no_manage,Value=true
for _ in {1..30}; do
  status=$(ec2 describe-network-interfaces --network-interface-ids "$eni" --query 'NetworkInterfaces[0].[Attachment.Status,PrivateIpAddress]')
  if [[ $status == attached* ]]; then echo "$status"; exit; fi
  sleep 1
done
echo "$eni is $status" >&2
exit 1
