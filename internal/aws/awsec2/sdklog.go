// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/aws/smithy-go/logging"
)

// sdkLog passes the SDK's log messages to a log; by default the SDK writes them to stderr as plain text. They describe
// the SDK itself, for example an unusable connection; the result of a call is in its error. Therefore the SDK's
// warnings are at V(1), and its debug messages at V(4).
func sdkLog(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(as logging.Classification, format string, values ...any) {
		level := slog.LevelInfo - 1
		if as == logging.Debug {
			level = slog.LevelDebug
		}
		log.LogAttrs(context.Background(), level, "message of the AWS SDK",
			slog.String("remark", fmt.Sprintf(format, values...)))
	})
}
