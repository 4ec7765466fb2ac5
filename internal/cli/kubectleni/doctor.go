// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/cli/options"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/report"
	"github.com/multieni/multieni/internal/core/selector"
)

// ErrFailed means that a check failed. The command has printed the details.
var ErrFailed = errors.New("a check failed")

const (
	leaseName = "networking.k8s.aws"
	// controllerNamespace is the chart's default namespace of the controller.
	controllerNamespace = "eni-controller-system"
	// agentNamespace is the chart's default namespace of the agents.
	agentNamespace = "eni-manager-system"
	// leaseStale is how long a lease counts as held without renewal: twice the default of the controller.
	leaseStale = 30 * time.Second
	// fewAddresses is the number of free addresses below which doctor warns about a subnet.
	fewAddresses = 16
	// interfaceQuota is the default of the quota "Network interfaces per Region" (Amazon VPC quotas).
	interfaceQuota = 5000
)

func newDoctor() *cobra.Command {
	var s screen
	var e cloud
	var namespace string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check the environment: cluster, permissions, region, subnets, VPC CNI, quota",
		Long: `Check the environment of multieni, and suggest a next step for each problem: definitions and a
running controller in the cluster whose pods are ready, roles that its ServiceAccounts do not need, the region,
permissions in EC2 (by dry runs, which change nothing), free addresses of the subnets, harmful
settings of the VPC CNI and the interfaces that are left to it, attachments that the EBS CSI driver offers to
volumes although interfaces have them, the addresses of pod networks compared with the pods that nodes
allow, pods that are Pending for lack of an address, Karpenter's NodeOverlays that promise other addresses than
nodes have, the quota of network interfaces, and the local clock compared with EC2's.

The permissions are those of the user who runs the command. The controller's own access to EC2 shows
in its pods: one without access is not ready, and doctor says why. To check each of its permissions:

  kubectl exec -n eni-controller-system deployment/eni-controller -- /multieni doctor

The command fails if a check fails.`,
		Example: `  kubectl eni doctor
  kubectl eni doctor -o json | jq '.[] | select(.grade != "ok")'`,
		Args: cobra.NoArgs,
		RunE: s.begin(func(c *cobra.Command, api client.Client, _ []string) error {
			// In the controller's pod, the variables of the controller's flags are set.
			if err := options.FromEnvironment(c.Flags()); err != nil {
				return err
			}
			d := doctor{api: api, namespace: namespace}
			d.examine(c.Context(), &e)
			if err := s.print(c.OutOrStdout(), d.found); err != nil {
				return err
			}
			if d.found.Failed() {
				return ErrFailed
			}
			return nil
		}),
	}
	c.Flags().StringVar(&namespace, "namespace", controllerNamespace, "namespace of the controller")
	e.bind(c.Flags())
	e.bindInstanceTags(c.Flags())
	s.bind(c, "wide", "json", "yaml")
	return c
}

// doctor collects findings.
type doctor struct {
	api       client.Client
	namespace string
	found     report.Checks
	// cni are the settings of the VPC CNI; nil without it.
	cni *report.CNISettings
}

func (d *doctor) add(grade report.Severity, check, found, next string) {
	d.found = append(d.found, report.Check{Check: check, Grade: grade, Found: found, Next: next})
}

func (d *doctor) examine(ctx context.Context, e *cloud) {
	o, err := read(ctx, d.api)
	if err != nil {
		d.add(report.Failed, "definitions", err.Error(),
			"Check that the Kubernetes API answers, and that the definitions are installed.")
		return
	}
	d.add(report.OK, "definitions", fmt.Sprintf("the cluster has the definition of NodeENI, and %d of them",
		len(o.nodeENIs)), "")
	d.controller(ctx)
	d.pods(ctx)
	d.deletions(o)
	d.unable(o)
	d.rights(ctx)
	d.vpcCNI(ctx)
	d.instances(o)
	d.podNetworks(o)
	d.waitingPods(ctx, o)
	d.overlays(ctx, o)
	cloud, err := e.connect(ctx, d.api)
	if err != nil {
		d.add(report.Failed, "AWS", err.Error(), "Configure AWS credentials and the region.")
		return
	}
	if cloud.regionFrom == awsec2.RegionByDefault {
		d.add(report.Warning, "region", "no region is configured; "+cloud.region+" is used by default",
			"Set --region or AWS_REGION.")
	} else {
		d.add(report.OK, "region", fmt.Sprintf("%s, by the %s", cloud.region, cloud.regionFrom), "")
	}
	permissions, err := cloud.Permissions(ctx, anySubnet(o))
	if err != nil {
		d.add(report.Failed, "AWS", err.Error(), "Check the credentials, the region and the way to EC2 from here: "+
			"docs/troubleshooting.md#ec2-does-not-answer.")
		return
	}
	if d.permissions(permissions) {
		d.otherNames(ctx, cloud, o)
		d.outsiders(ctx, cloud, o)
		d.subnets(ctx, cloud, o)
		d.slots(ctx, cloud, o)
		d.interfaces(ctx, cloud, o)
	}
	d.clock(cloud)
}

// clock compares the clock of this machine with EC2's, which the answers so far have reported. In the controller's pod
// it checks the controller's clock.
func (d *doctor) clock(cloud ec2) {
	ahead := cloud.clock.Ahead()
	if ahead.Abs() > controller.ClockTolerance {
		d.add(report.Warning, "clock", fmt.Sprintf("EC2's clock is %s ahead of this machine's (behind it if negative)",
			ahead),
			"Synchronize the clock: the controller computes the age of interfaces with its own.")
		return
	}
	d.add(report.OK, "clock", fmt.Sprintf("within %s of EC2's", controller.ClockTolerance), "")
}

// startController is the next step if no controller runs.
const startController = "Start it: helm install, or kubectl rollout status -n eni-controller-system " +
	"deployment/eni-controller."

// deletions warns about NodeENIs whose deletion no controller has observed.
func (d *doctor) deletions(o objects) {
	for _, n := range o.fleet().NodeENIs {
		if n.Deleting && n.NotObserved {
			d.add(report.Warning, "controller", "NodeENI "+n.Name+
				" is to be deleted, and no controller has taken note of that: its finalizer waits for one", startController)
		}
	}
}

func (d *doctor) controller(ctx context.Context) {
	var lease coordinationv1.Lease
	err := d.api.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: leaseName}, &lease)
	switch {
	case apierrors.IsNotFound(err):
		d.add(report.Warning, "controller", "no controller holds the lease in namespace "+d.namespace+
			"; one with --leader-elect=false holds none", startController)
	case err != nil:
		d.add(report.Warning, "controller", "the lease cannot be read: "+err.Error(),
			"Ask for permission to read leases in "+d.namespace+".")
	case lease.Spec.RenewTime == nil || time.Since(lease.Spec.RenewTime.Time) > leaseStale ||
		lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "":
		d.add(report.Failed, "controller", "the lease has expired, so no controller runs", startController)
	default:
		d.add(report.OK, "controller", *lease.Spec.HolderIdentity+" holds the lease", "")
	}
}

func (d *doctor) instances(o objects) {
	var others []string
	for i := range o.nodes {
		if _, err := eni.ServedInstance(o.nodes[i].Spec.ProviderID, o.nodes[i].Labels); err != nil {
			others = append(others, fmt.Sprintf("%s gets none: %v", o.nodes[i].Name, err))
		}
	}
	found := fmt.Sprintf("%d of %d can get interfaces", len(o.nodes)-len(others), len(o.nodes))
	if len(others) > 0 {
		found += "; " + others[0]
	}
	d.add(report.OK, "nodes", found, "")
}

// permissions reports EC2's answers about permissions, and returns whether EC2 can at least be read.
func (d *doctor) permissions(all []awsec2.Permission) bool {
	var denied, unsure []string
	var madeUp int
	readable := true
	for _, p := range all {
		switch p.Grant {
		case awsec2.Denied:
			denied = append(denied, p.Action)
			readable = readable && !strings.HasPrefix(p.Action, "ec2:Describe")
		case awsec2.Unknown:
			unsure = append(unsure, fmt.Sprintf("%s (%v)", p.Action, p.Err))
			readable = readable && !strings.HasPrefix(p.Action, "ec2:Describe")
		}
		if p.MadeUp {
			madeUp++
		}
	}
	switch {
	case len(denied) > 0:
		d.add(report.Failed, "permissions", fmt.Sprintf("%d of %d actions are denied: %s", len(denied), len(all),
			strings.Join(denied, ", ")),
			"Give the role the policy of deploy/iam/controller.json. Where a policy depends on tags, a dry run for "+
				"no real interface can be denied; what counts is the controller's own role.")
	case len(unsure) > 0:
		d.add(report.Warning, "permissions", "EC2 answered neither yes nor no: "+strings.Join(unsure, ", "),
			"Look at the answers; repeat the check.")
	default:
		granted := fmt.Sprintf("all %d actions that EC2 can try are granted", len(all))
		if madeUp > 0 {
			granted += fmt.Sprintf("; for %d of them EC2 found no resource to check", madeUp)
		}
		d.add(report.OK, "permissions", granted, "")
	}
	return readable
}

// anySubnet returns the ID of a subnet of a NodeENI; empty if none is known.
func anySubnet(o objects) string {
	if ids := subnetsOf(o); len(ids) > 0 {
		return ids[0]
	}
	return ""
}

// subnetsOf returns the IDs of the subnets of all NodeENIs.
func subnetsOf(o objects) []string {
	var ids []string
	for _, n := range o.nodeENIs {
		for _, s := range n.Status.Subnets {
			ids = append(ids, s.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (d *doctor) subnets(ctx context.Context, cloud ec2, o objects) {
	ids := subnetsOf(o)
	if len(ids) == 0 {
		return
	}
	subnets, err := cloud.Subnets(ctx, selector.SubnetTerms{IDs: ids})
	if err != nil {
		d.add(report.Failed, "subnets", err.Error(), "Give the role ec2:DescribeSubnets.")
		return
	}
	for _, s := range subnets {
		grade, next := report.OK, ""
		if s.FreeIPv4 < fewAddresses {
			grade, next = report.Warning, "Add a further subnet to the NodeENIs that use it."
		}
		d.add(grade, "subnet "+s.ID, fmt.Sprintf("%d addresses free in %s", s.FreeIPv4, s.Zone), next)
	}
}

// interfaces checks what depends on the number of interfaces, with one read of all of the region.
func (d *doctor) interfaces(ctx context.Context, cloud ec2, o objects) {
	counts, err := cloud.CountInterfaces(ctx)
	if err != nil {
		d.add(report.Warning, "quota", "the region's interfaces cannot be counted: "+err.Error(), "Repeat the check.")
		return
	}
	d.quota(counts.Region, cloud.region)
	d.volumes(ctx, o, counts.ByInstance)
}

func (d *doctor) quota(n int, region string) {
	found := fmt.Sprintf("%d network interfaces in %s; AWS allows %d by default", n, region, interfaceQuota)
	if n*10 > interfaceQuota*8 {
		d.add(report.Warning, "quota", found,
			"Compare with your quota \"Network interfaces per Region\" in Service Quotas, and raise it in time.")
		return
	}
	d.add(report.OK, "quota", found, "")
}
