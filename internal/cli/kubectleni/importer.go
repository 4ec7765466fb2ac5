// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/importer"
	"github.com/multieni/multieni/internal/core/report"
	"github.com/multieni/multieni/internal/core/selector"
)

// The marks of the other controller on NodeENIs.
const (
	otherFinalizer  = "nodeeni.networking.k8s.aws/finalizer"
	otherAnnotation = "aws-multi-eni-controller/cleanup-start-time"
	otherImage      = "aws-multi-eni-controller"
)

// The programs whose interfaces can be imported.
const (
	fromController = "aws-multi-eni-controller"
	fromFunction   = "multus-function"
)

func newImport() *cobra.Command {
	var s screen
	var e cloud
	var q question
	var dryRun bool
	var from string
	c := &cobra.Command{
		Use:   "import",
		Short: "Import the interfaces of the aws-multi-eni-controller or of the published Multus functions",
		Long: `Import the interfaces of the aws-multi-eni-controller without interrupting their traffic. The
command adds multieni's tags to its attached interfaces; the next controller that starts adopts
them in their slots. It then removes the other controller's finalizer from the NodeENIs, because
nothing else would.

Stop that controller first; the command fails while it runs. It lists interfaces that are not
attached to a node of this cluster, or that no NodeENI matches, and does not change them. It
calls EC2 with your own AWS credentials.

With --from=multus-function, the command imports interfaces of the nodes that have the tag
node.k8s.amazonaws.com/no_manage=true and no owner, as the published Multus functions for node
groups leave them. It matches them by subnet and device index, then by subnet. Apply the NodeENIs
first: if such an interface is in the slot of a NodeENI, the controller creates none, and reports
NotImported.`,
		Example: `  kubectl scale -n eni-controller-system deployment/eni-controller --replicas=0
  kubectl eni import --dry-run
  kubectl eni import
  kubectl eni import --from multus-function`,
		Args: cobra.NoArgs,
		RunE: s.begin(func(c *cobra.Command, api client.Client, _ []string) error {
			if from != fromController && from != fromFunction {
				return fmt.Errorf("--from=%s: it can be %s or %s", from, fromController, fromFunction)
			}
			cloud, err := e.connect(c.Context(), api)
			if err != nil {
				return err
			}
			i := importRun{api: api, cloud: cloud, from: from, now: time.Now()}
			if err := i.find(c.Context()); err != nil {
				return err
			}
			if err := s.print(c.OutOrStdout(), i.view()); err != nil || dryRun || len(i.outcome.Matches)+len(i.objects) == 0 {
				return err
			}
			if err := i.isOtherControllerStopped(c.Context()); err != nil {
				return err
			}
			if err := q.ask(c, "Import them?"); err != nil {
				return err
			}
			return i.carryOut(c.Context())
		}),
	}
	c.Flags().StringVar(&from, "from", fromController,
		"program whose interfaces to import: "+fromController+" or "+fromFunction)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only print what would be imported")
	q.bind(c.Flags())
	e.bind(c.Flags())
	s.bind(c, "wide", "json", "yaml")
	return c
}

// importRun is one run of import.
type importRun struct {
	api   client.Client
	cloud ec2
	from  string
	now   time.Time

	outcome importer.Result
	// objects are the NodeENIs with the other controller's marks.
	objects  []v1alpha1.NodeENI
	nodeENIs map[string]*v1alpha1.NodeENI
}

// find reads the cluster and EC2.
func (i *importRun) find(ctx context.Context) error {
	o, err := readWanted(ctx, i.api)
	if err != nil {
		return err
	}
	d := dryRun{objects: o, cloud: i.cloud, now: i.now}
	if err := d.resolve(ctx); err != nil {
		return err
	}
	i.nodeENIs = map[string]*v1alpha1.NodeENI{}
	for n := range o.nodeENIs {
		nodeENI := &o.nodeENIs[n]
		i.nodeENIs[nodeENI.Name] = nodeENI
		if i.from != fromController {
			continue
		}
		if _, annotated := nodeENI.Annotations[otherAnnotation]; annotated ||
			controllerutil.ContainsFinalizer(nodeENI, otherFinalizer) {
			i.objects = append(i.objects, *nodeENI)
		}
	}
	tags := map[string]string{importer.TagManagedBy: importer.ManagedBy}
	if i.from == fromFunction {
		tags = map[string]string{identity.TagNoManage: "true"}
	}
	interfaces, err := i.cloud.ListTagged(ctx, tags)
	if err != nil {
		return err
	}
	i.match(&d, interfaces)
	return nil
}

// match matches the interfaces of each node, and skips those that are attached to none.
func (i *importRun) match(d *dryRun, interfaces []eni.Interface) {
	byInstance := map[string][]eni.Interface{}
	for _, one := range interfaces {
		instanceID := ""
		if one.Attachment != nil {
			instanceID = one.Attachment.InstanceID
		}
		byInstance[instanceID] = append(byInstance[instanceID], one)
	}
	for n := range d.nodes {
		node := &d.nodes[n]
		ref, err := eni.ParseProviderID(node.Spec.ProviderID)
		some := byInstance[ref.ID]
		if err != nil || len(some) == 0 {
			continue
		}
		delete(byInstance, ref.ID)
		wanted := d.desired(node, ref.ID, selector.Location{Zone: ref.Zone, VPCID: some[0].VPCID})
		find := importer.Find
		if i.from == fromFunction {
			find = importer.FindUnowned
		}
		found := find(wanted, some, identity.GenerationAt(i.now))
		i.outcome.Matches = append(i.outcome.Matches, found.Matches...)
		i.outcome.Passed = append(i.outcome.Passed, found.Passed...)
	}
	if i.from == fromFunction {
		return // the VPC's other interfaces with that tag belong to other clusters, or to no Kubernetes cluster
	}
	for _, instanceID := range slices.Sorted(maps.Keys(byInstance)) {
		for _, one := range byInstance[instanceID] {
			i.outcome.Passed = append(i.outcome.Passed,
				importer.Skipped{Interface: one, Why: "it is attached to no node of this cluster"})
		}
	}
}

func (i *importRun) view() report.ImportPlan {
	v := report.ImportPlan{Adopt: []report.ImportedInterface{}}
	for _, m := range i.outcome.Matches {
		v.Adopt = append(v.Adopt, report.ImportedInterface{
			ENIID: m.Interface.ID, NodeENI: m.Member.NodeENI, Node: m.Member.Node, Ordinal: m.Member.Ordinal,
			Slot: m.Interface.Attachment.Slot.String(),
		})
	}
	for _, p := range i.outcome.Passed {
		v.Passed = append(v.Passed, report.SkippedInterface{ENIID: p.Interface.ID, Why: p.Why})
	}
	for _, o := range i.objects {
		v.Objects = append(v.Objects, o.Name)
	}
	return v
}

// isOtherControllerStopped returns an error while the other controller runs: it would create interfaces again that it
// no longer finds.
func (i *importRun) isOtherControllerStopped(ctx context.Context) error {
	if i.from != fromController {
		return nil
	}
	var all appsv1.DeploymentList
	if err := i.api.List(ctx, &all); err != nil {
		return fmt.Errorf("check whether the aws-multi-eni-controller runs: %w", err)
	}
	for _, d := range all.Items {
		for _, container := range d.Spec.Template.Spec.Containers {
			if strings.Contains(container.Image, otherImage) && (d.Spec.Replicas == nil || *d.Spec.Replicas > 0) {
				return fmt.Errorf("the aws-multi-eni-controller still runs as deployment %[1]s in %[2]s; stop it "+
					"first: kubectl scale -n %[2]s deployment/%[1]s --replicas=0", d.Name, d.Namespace)
			}
		}
	}
	return nil
}

// carryOut tags the interfaces. Once all have their tags, it removes the other controller's finalizer from the objects.
func (i *importRun) carryOut(ctx context.Context) error {
	var failed []error
	for _, m := range i.outcome.Matches {
		tags := m.Member.DesiredTags(v1alpha1.Strings(i.nodeENIs[m.Member.NodeENI].Spec.Tags))
		tags[identity.TagCreatedAt] = strconv.FormatInt(i.now.Unix(), 10)
		if err := i.cloud.PutTags(ctx, m.Interface.ID, tags); err != nil {
			failed = append(failed, fmt.Errorf("tag %s: %w", m.Interface.ID, err))
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("not all interfaces are imported; run the command again: %w", errors.Join(failed...))
	}
	for n := range i.objects {
		object := &i.objects[n]
		before := object.DeepCopy()
		controllerutil.RemoveFinalizer(object, otherFinalizer)
		delete(object.Annotations, otherAnnotation)
		if err := i.api.Patch(ctx, object, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("remove the other controller's finalizer from NodeENI %s: %w", object.Name, err)
		}
	}
	return nil
}
