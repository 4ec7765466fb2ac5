// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata_test

import (
	"fmt"

	"github.com/multieni/multieni/internal/core/userdata"
)

// An operator starts eni-bootstrap on a self-managed node of Amazon Linux 2023, in addition to a script of the
// operator.
func ExampleBootstrap_Render() {
	text, err := userdata.Bootstrap{
		Family: userdata.AL2023, SSMParameter: "/prod/eni", OnFailure: userdata.Fail,
		ProgramURL:    "https://example.com/eni-bootstrap",
		ProgramSHA256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		Cluster: userdata.Cluster{
			ClusterName: "prod", Endpoint: "https://prod.eks.amazonaws.com", CA: "Q0E=", ServiceCIDR: "10.100.0.0/16",
		},
		User: "#!/bin/sh\necho mine\n",
	}.Render()
	fmt.Print(text, err)
	// Output:
	// MIME-Version: 1.0
	// Content-Type: multipart/mixed; boundary="multieni-part"
	//
	// --multieni-part
	// Content-Type: text/x-shellscript
	//
	// #!/bin/bash
	// # Written by multieni userdata render: the node's interfaces before its kubelet.
	// set -euo pipefail
	// install -d /etc/multieni
	// cat >/etc/multieni/load <<'MULTIENI_END'
	// #!/bin/bash
	// set -euo pipefail
	// program=/usr/local/bin/eni-bootstrap
	// verify() { echo "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  $1" | sha256sum --status -c -; }
	// if verify "$program"; then exit; fi
	// curl -fsSL --retry 5 --retry-delay 2 --max-time 120 -o "$program.new" 'https://example.com/eni-bootstrap'
	// verify "$program.new" || { echo "the program at --program-url does not have the expected SHA-256" >&2; exit 1; }
	// chmod 0755 "$program.new"
	// mv "$program.new" "$program"
	// MULTIENI_END
	// cat >/etc/systemd/system/eni-bootstrap.service <<'MULTIENI_END'
	// [Unit]
	// Description=Network interfaces of multieni
	// Wants=network-online.target
	// After=network-online.target nodeadm-config.service
	// Before=nodeadm-run.service
	//
	// [Service]
	// Type=oneshot
	// RemainAfterExit=yes
	// ExecStartPre=/bin/bash /etc/multieni/load
	// ExecStart=/usr/local/bin/eni-bootstrap --ssm-parameter=/prod/eni --on-failure=fail --node-config=/etc/eks/nodeadm.d/40-multieni.yaml
	// SuccessExitStatus=10
	// TimeoutStartSec=10min
	//
	// [Install]
	// RequiredBy=nodeadm-run.service
	// MULTIENI_END
	// systemctl enable eni-bootstrap.service
	// systemctl daemon-reload
	// systemctl start eni-bootstrap.service
	// --multieni-part
	// Content-Type: application/node.eks.aws
	//
	// apiVersion: node.eks.aws/v1alpha1
	// kind: NodeConfig
	// spec:
	//   cluster:
	//     name: "prod"
	//     apiServerEndpoint: "https://prod.eks.amazonaws.com"
	//     certificateAuthority: "Q0E="
	//     cidr: "10.100.0.0/16"
	// --multieni-part
	// Content-Type: text/x-shellscript
	//
	// #!/bin/sh
	// echo mine
	// --multieni-part--
	// <nil>
}
