// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command library-usage makes and attaches an interface with the library alone.
//
// It is the example of the aws-multi-eni-controller with the import path of this library, and without the import of
// logr, which that example does not use and Go therefore refuses.
package main

import (
	"context"
	"log"
	"time"

	"github.com/go-logr/zapr"
	"github.com/multieni/multieni/lib"
	"go.uber.org/zap"
)

func main() {
	// Create a logger
	zapLog, _ := zap.NewDevelopment()
	logger := zapr.NewLogger(zapLog)

	// Create a context with timeout
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()

	// Create an ENI manager
	eniManager, err := lib.NewENIManager(ctx, "us-east-1", logger)
	if err != nil {
		log.Fatalf("Failed to create ENI manager: %v", err)
	}

	// Create an ENI
	options := lib.ENIOptions{
		SubnetID:            "subnet-12345678",
		SecurityGroupIDs:    []string{"sg-12345678"},
		Description:         "Example ENI",
		DeviceIndex:         1,
		DeleteOnTermination: true,
		Tags: map[string]string{
			"Name": "example-eni",
		},
	}

	eniID, err := eniManager.CreateENI(ctx, options)
	if err != nil {
		log.Fatalf("Failed to create ENI: %v", err)
	}

	// Attach the ENI to an instance
	err = eniManager.AttachENI(ctx, eniID, "i-12345678", options.DeviceIndex, options.DeleteOnTermination)
	if err != nil {
		log.Fatalf("Failed to attach ENI: %v", err)
	}
}
