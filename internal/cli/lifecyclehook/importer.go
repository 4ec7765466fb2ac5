// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/base/version"
	"github.com/multieni/multieni/internal/core/terminal"
	"github.com/multieni/multieni/internal/join/join"
	"github.com/multieni/multieni/internal/join/joinconfig"
)

// groupTag is the tag that Auto Scaling adds to the instances of a group.
const groupTag = "aws:autoscaling:groupName"

func newImport(o *options) *cobra.Command {
	var yes bool
	command := &cobra.Command{
		Use:   "import",
		Short: "Import the interfaces that the published Multus functions created on running instances",
		Long: `Import the interfaces of running instances that have the tag
node.k8s.amazonaws.com/no_manage=true and no owner, as the published Multus functions for node
groups leave them. Each becomes the interface of the network that asks for one in its subnet and
at its device index, or else in its subnet: it gets tags, stays attached, and is deleted with its
instance. Without --yes the command only prints what it would do.

The command calls EC2 with your own AWS credentials, which need the permissions that
"multieni iam-policy operator" prints.`,
		Example: `  multieni lifecycle-hook import --config networks.yaml
  multieni lifecycle-hook import --config networks.yaml --yes`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.importAll(c.Context(), yes, c.OutOrStdout(), slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil)))
		},
	}
	command.Flags().BoolVar(&yes, "yes", false, "import them")
	return command
}

func (o *options) importAll(ctx context.Context, yes bool, out io.Writer, log *slog.Logger) error {
	want, err := o.load()
	if err == nil {
		err = want.CheckTrigger()
	}
	if err != nil {
		return err
	}
	region, err := awsec2.Region(ctx, o.region)
	if err != nil {
		return err
	}
	cfg, err := awsec2.Load(ctx, region, version.String(), log)
	if err != nil {
		return err
	}
	cloud := awsec2.New(cfg, awsec2.Options{Cluster: want.Cluster})
	if err := joinconfig.Check(ctx, want, cloud); err != nil {
		return fmt.Errorf("check the parameters: %w", err)
	}
	instances, err := cloud.TaggedInstances(ctx, want.Trigger.TagKey, want.Trigger.TagValue)
	if err != nil {
		return err
	}
	joiner := join.New(join.Options{Config: want.Config, Cloud: cloud, Now: time.Now, Log: log})
	var failed []error
	imported := 0
	for _, i := range instances {
		if !want.Serves(i.Tags[groupTag]) {
			continue
		}
		n, err := importOf(ctx, joiner, i.ID, yes, out)
		imported += n
		if err != nil {
			failed = append(failed, fmt.Errorf("instance %s: %w", i.ID, err))
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("not all interfaces are imported; run the command again: %w", errors.Join(failed...))
	}
	done := "interfaces to import; --yes imports them"
	if yes {
		done = "interfaces imported"
	}
	fmt.Fprintf(out, "%d instances with tag %s, %d %s\n", len(instances), want.Trigger.TagKey, imported, done)
	return nil
}

// importOf imports the interfaces of one instance, and returns how many.
func importOf(ctx context.Context, joiner *join.Joiner, instanceID string, yes bool, out io.Writer) (int, error) {
	found, err := joiner.Importable(ctx, instanceID)
	if err != nil {
		return 0, err
	}
	for _, p := range found.Passed {
		fmt.Fprintf(out, "%s stays as it is: %s\n", p.Interface.ID, terminal.Printable(p.Why))
	}
	for n, m := range found.Matches {
		if yes {
			if err := joiner.Import(ctx, m); err != nil {
				return n, fmt.Errorf("tag %s: %w", m.Interface.ID, err)
			}
		}
		fmt.Fprintf(out, "%s, %s of %s, becomes interface %d of network %s\n",
			m.Interface.ID, m.Interface.Attachment.Slot, instanceID, m.Key.Ordinal, m.Key.NodeENI)
	}
	return len(found.Matches), nil
}
