// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni_test

import (
	"fmt"

	"github.com/multieni/multieni/internal/core/eni"
)

// A Node names its instance, and EC2 says which slot of it an interface has.
func Example() {
	ref, err := eni.ParseProviderID("aws:///us-east-1a/i-0123456789abcdef0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ref.Zone, ref.ID)

	storage := eni.Interface{ID: "eni-1", Status: eni.InUse, Attachment: &eni.Attachment{
		InstanceID: ref.ID, Slot: eni.Slot{Card: 1, Device: 2}, Status: eni.AttachmentAttaching,
	}}
	fmt.Println(storage.ID, "is ready:", storage.Ready())
	storage.Attachment.Status = eni.AttachmentAttached
	fmt.Println(storage.ID, "is ready:", storage.Ready())
	// Output:
	// us-east-1a i-0123456789abcdef0
	// eni-1 is ready: false
	// eni-1 is ready: true
}
