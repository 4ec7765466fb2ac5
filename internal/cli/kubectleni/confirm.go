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
)

// question is what stands before a command changes something.
type question struct{ yes bool }

func (q *question) bind(flags *pflag.FlagSet) {
	flags.BoolVarP(&q.yes, "yes", "y", false, "do it without asking")
}

// ask returns nil when the answer is yes.
func (q question) ask(c *cobra.Command, text string) error {
	if q.yes {
		return nil
	}
	if in, isFile := c.InOrStdin().(*os.File); isFile && !term.IsTerminal(int(in.Fd())) {
		return errors.New("there is no terminal to ask for confirmation; --yes confirms it")
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s [y/N] ", text)
	answer, err := bufio.NewReader(c.InOrStdin()).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}
