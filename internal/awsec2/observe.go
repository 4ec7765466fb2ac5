// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"

	"github.com/multieni/multieni/eni"
)

// Call is one request to EC2 and what came of it. A call that the SDK tries again is as many requests.
type Call struct {
	// Action is EC2's name of the operation, for example "AttachNetworkInterface".
	Action string
	// Class is empty for success.
	Class eni.Class
	// Code is EC2's error code, empty for success and when no answer came.
	Code string
	// Duration is the time from sending to the whole answer; the time waited for the request rate is not part of it.
	Duration time.Duration
}

// Observer is told of every request to EC2. It is called from many goroutines.
type Observer func(Call)

func (o Observer) middleware() middleware.FinalizeMiddleware {
	return middleware.FinalizeMiddlewareFunc("multieni:Observer", func(
		ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
	) (middleware.FinalizeOutput, middleware.Metadata, error) {
		begun := time.Now()
		out, metadata, err := next.HandleFinalize(ctx, in)
		call := Call{Action: awsmiddleware.GetOperationName(ctx), Duration: time.Since(begun)}
		if err != nil {
			fault := faultOf(err)
			call.Class, call.Code = fault.Class, fault.Code
		}
		o(call)
		return out, metadata, err
	})
}
