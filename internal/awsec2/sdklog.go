// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/aws/smithy-go/logging"
)

// sdkLog passes the SDK's remarks on to a log, which the SDK otherwise writes to stderr as plain text. They are about the SDK
// itself, such as that a connection is not used again; what becomes of a call is said by its error. So its warnings come at
// V(1), and what it calls debugging at V(4).
func sdkLog(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(as logging.Classification, format string, values ...any) {
		level := slog.LevelInfo - 1
		if as == logging.Debug {
			level = slog.LevelDebug
		}
		log.LogAttrs(context.Background(), level, "remark of the AWS SDK", slog.String("remark", fmt.Sprintf(format, values...)))
	})
}
