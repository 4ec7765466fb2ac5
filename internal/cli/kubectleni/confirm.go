// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/multieni/multieni/internal/core/terminal"
)

// question is the confirmation that a command requires before it changes something.
type question struct{ yes bool }

func (q *question) bind(flags *pflag.FlagSet) {
	flags.BoolVarP(&q.yes, "yes", "y", false, "do not ask for confirmation")
}

// ask returns nil if the user confirms.
func (q question) ask(c *cobra.Command, text string) error {
	if q.yes {
		return nil
	}
	if in, isFile := c.InOrStdin().(*os.File); isFile && !term.IsTerminal(int(in.Fd())) {
		return errors.New("cannot ask for confirmation without a terminal; --yes confirms it")
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s [y/N] ", terminal.Printable(text))
	answer, err := bufio.NewReader(c.InOrStdin()).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}
