// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/multieni/multieni/internal/base/version"
)

// ExplainUnknown adds the likely cause and the next step to the error of a flag that the program of a container does
// not have. The program must not ignore it: the flag can restrict what the program does.
func ExplainUnknown(_ *cobra.Command, err error) error {
	if unknown := (*pflag.NotExistError)(nil); !errors.As(err, &unknown) {
		return err
	}
	return fmt.Errorf("%w: this is %s, which does not have it. If the chart passes the flag, the chart is of a later "+
		"release than the image: remove image.tag and image.digest from the values, or use the chart of this release. "+
		"If it is in extraArgs, correct it there", err, version.String())
}
