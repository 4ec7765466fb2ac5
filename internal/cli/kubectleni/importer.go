// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/importer"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/report"
	"github.com/multieni/multieni/internal/core/selector"
)

// The marks of the other controller on NodeENIs.
const (
	otherFinalizer  = "nodeeni.networking.k8s.aws/finalizer"
	otherAnnotation = "aws-multi-eni-controller/cleanup-start-time"
	otherImage      = "aws-multi-eni-controller"
)

const importLong = `Import the interfaces of the aws-multi-eni-controller without interrupting their traffic. The
command adds multieni's tags to its attached interfaces, among them the name of a NetworkInterface;
the controller takes them over in their slots. The command then removes the other controller's
finalizer from the NodeENIs, because nothing else would.

Stop that controller first; the command fails while it runs. It lists interfaces that are not
attached to a node of this cluster, or that no NodeENI matches, and does not change them. It
calls EC2 with your own AWS credentials.

With --from=multus-function, the command imports interfaces of the nodes that have the tag
node.k8s.amazonaws.com/no_manage=true and no owner, as the published Multus functions for node
groups leave them. It matches them by subnet and device index, then by subnet. Apply the NodeENIs
first: if such an interface is in the slot of a NodeENI, the controller creates none, and reports
NotImported.

With --selector, the command imports the interfaces of the nodes with these labels, for example
of one node group. Pause the other nodes before the controller of multieni starts, so that it
creates no second interfaces there: kubectl annotate node NODE networking.k8s.aws/paused=true.
The import does not need a pause to end. A NodeENI keeps the other controller's finalizer until
its interfaces on all nodes are imported.

With --undo, the command gives imported interfaces back: it removes multieni's tags from them and
their NetworkInterfaces. Interfaces stay attached, and their other tags stay. A
NodeENI without any interface of multieni loses multieni's finalizer, so that its deletion deletes
no interface. Stop the controller of multieni first; the command fails while it runs. Interfaces
that multieni created stay its own. Interfaces of a NodeENI with pods stay too: remove spec.pods,
and wait until no pod has an address.`

const importExample = `  # all interfaces
  kubectl scale -n eni-controller-system deployment/eni-controller --replicas=0
  kubectl eni import --dry-run
  kubectl eni import
  kubectl eni import --from multus-function

  # one node group, and back
  kubectl eni import --selector eks.amazonaws.com/nodegroup=blue --dry-run
  kubectl eni import --selector eks.amazonaws.com/nodegroup=blue
  kubectl eni import --undo --selector eks.amazonaws.com/nodegroup=blue --dry-run -o json`

func newImport() *cobra.Command {
	var s screen
	var e cloud
	var q question
	var dryRun, undo bool
	var from, nodes string
	c := &cobra.Command{
		Use:     "import",
		Short:   "Import the interfaces of the aws-multi-eni-controller or of the published Multus functions",
		Long:    importLong,
		Example: importExample,
		Args:    cobra.NoArgs,
		RunE: s.begin(func(c *cobra.Command, api client.Client, _ []string) error {
			if from != importer.FromController && from != importer.FromFunction {
				return fmt.Errorf("--from=%s: it can be %s or %s", from, importer.FromController, importer.FromFunction)
			}
			selects, err := labels.Parse(nodes)
			if err != nil {
				return fmt.Errorf("--selector=%s: %w", nodes, err)
			}
			cloud, err := e.connect(c.Context(), api)
			if err != nil {
				return err
			}
			i := importRun{api: api, cloud: cloud, from: from, nodes: selects, now: time.Now()}
			if undo {
				return i.undo(c, &s, q, dryRun)
			}
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
	c.Flags().StringVar(&from, "from", importer.FromController,
		"program whose interfaces to import: "+importer.FromController+" or "+importer.FromFunction)
	c.Flags().StringVarP(&nodes, "selector", "l", "",
		"labels of the nodes whose interfaces to import, as for kubectl get; all nodes if empty")
	c.Flags().BoolVar(&undo, "undo", false, "give imported interfaces back")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only print what would be changed")
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
	// nodes selects the nodes whose interfaces are imported.
	nodes labels.Selector
	now   time.Time

	outcome importer.Result
	// objects are the NodeENIs with the other controller's marks.
	objects  []v1alpha1.NodeENI
	nodeENIs map[string]*v1alpha1.NodeENI
	// waiting are the NodeENIs with interfaces of the other controller on nodes that are not selected.
	waiting []string
}

// read reads what users declare, and fails if the selector matches no node.
func (i *importRun) read(ctx context.Context) (objects, error) {
	o, err := readWanted(ctx, i.api)
	if err != nil {
		return o, err
	}
	if !i.nodes.Empty() && !slices.ContainsFunc(o.nodes, i.selects) {
		return o, fmt.Errorf("--selector=%s matches no node; kubectl get nodes --show-labels shows their labels", i.nodes)
	}
	var interfaces v1alpha1.NetworkInterfaceList
	if err := i.api.List(ctx, &interfaces); err != nil && !meta.IsNoMatchError(err) { // multieni may not be installed yet
		return o, unlisted("NetworkInterfaces", err)
	}
	o.interfaces = interfaces.Items
	i.nodeENIs = map[string]*v1alpha1.NodeENI{}
	for n := range o.nodeENIs {
		i.nodeENIs[o.nodeENIs[n].Name] = &o.nodeENIs[n]
	}
	return o, nil
}

func (i *importRun) selects(node corev1.Node) bool { return i.nodes.Matches(labels.Set(node.Labels)) }

// find reads the cluster and EC2.
func (i *importRun) find(ctx context.Context) error {
	o, err := i.read(ctx)
	if err != nil {
		return err
	}
	d := dryRun{objects: o, api: i.api, cloud: i.cloud, now: i.now}
	if err := d.resolve(ctx); err != nil {
		return err
	}
	tags := map[string]string{importer.TagManagedBy: importer.ManagedBy}
	if i.from == importer.FromFunction {
		tags = map[string]string{identity.TagNoManage: "true"}
	}
	interfaces, err := i.cloud.ListTagged(ctx, tags)
	if err != nil {
		return err
	}
	i.match(&d, interfaces)
	if i.from == importer.FromController {
		i.findObjects()
	}
	return nil
}

// findObjects finds the NodeENIs that lose the other controller's marks: those without an interface of it on other
// nodes.
func (i *importRun) findObjects() {
	var waiting []string
	for _, name := range slices.Sorted(maps.Keys(i.nodeENIs)) {
		nodeENI := i.nodeENIs[name]
		_, annotated := nodeENI.Annotations[otherAnnotation]
		switch {
		case !annotated && !controllerutil.ContainsFinalizer(nodeENI, otherFinalizer):
		case slices.Contains(i.waiting, name):
			waiting = append(waiting, name)
		default:
			i.objects = append(i.objects, *nodeENI)
		}
	}
	i.waiting = waiting
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
		if !i.selects(*node) {
			i.wait(some)
			continue
		}
		// An import changes nothing of a node that the controller would do, so it does not wait for the end of a pause.
		node = node.DeepCopy()
		delete(node.Annotations, v1alpha1.PausedAnnotation)
		find := importer.Find
		if i.from == importer.FromFunction {
			find = importer.FindUnowned
		}
		found := find(i.declared(d, d.instance(node, ref, some[0].VPCID)), some)
		i.outcome.Matches = append(i.outcome.Matches, found.Matches...)
		i.outcome.Passed = append(i.outcome.Passed, found.Passed...)
	}
	// The VPC's other interfaces with the tag of a function belong to other clusters, or to no Kubernetes cluster.
	if i.from == importer.FromFunction || !i.nodes.Empty() {
		return
	}
	for _, instanceID := range slices.Sorted(maps.Keys(byInstance)) {
		for _, one := range byInstance[instanceID] {
			i.outcome.Passed = append(i.outcome.Passed,
				importer.Skipped{Interface: one, Why: "it is attached to no node of this cluster"})
		}
	}
}

// declared returns what the NodeENIs declare for an instance.
func (i *importRun) declared(d *dryRun, in render.In) importer.Declared {
	declared := importer.Declared{Cluster: d.cloud.cluster, Node: in.Nodes[0].Name, InstanceID: in.Instance.ID,
		DecidedAt: i.now}
	for _, n := range d.declared() {
		mode, why := n.ModeOf(in.Nodes)
		one := importer.NodeENI{Name: n.Name, Why: why}
		if mode == render.Ensure {
			one.Interfaces = i.wanted(d, n.NodeENI, in)
		}
		declared.NodeENIs = append(declared.NodeENIs, one)
	}
	return declared
}

// wanted returns the interfaces that a NodeENI declares for an instance, each with the ordinal of its object. The other
// controller has no interface for one that multieni has.
func (i *importRun) wanted(d *dryRun, n render.NodeENI, in render.In) (all []importer.Wanted) {
	var objects []render.Object
	for o := range d.interfaces {
		if d.interfaces[o].Spec.InstanceID == in.Instance.ID && d.interfaces[o].Spec.NodeENI.Name == n.Name {
			objects = append(objects, object.Rendered(&d.interfaces[o]))
		}
	}
	placed := n.At(selector.Location{Zone: in.Instance.Zone, VPCID: in.VPCID}).Interfaces
	paired := n.Pair(placed, objects)
	for at, w := range placed {
		one := importer.Wanted{Ordinal: w.Ordinal, Settings: eni.Settings{Slot: w.Slot, ExactSlot: n.ExactSlot,
			Spec: w.Template.EC2}}
		for _, subnet := range w.Candidates {
			one.Subnets = append(one.Subnets, subnet.ID)
		}
		if o, has := paired[at]; has {
			one.Ordinal = objects[o].Spec.Ordinal
			if objects[o].ENIID != "" && i.from == importer.FromController {
				continue
			}
		}
		all = append(all, one)
	}
	return all
}

// wait notes the NodeENIs of interfaces that are not imported yet.
func (i *importRun) wait(interfaces []eni.Interface) {
	for _, one := range interfaces {
		if one.Tags[identity.TagCluster] == "" {
			i.waiting = append(i.waiting, one.Tags[importer.TagNodeENI])
		}
	}
}

// matched returns the interfaces of the outcome that change, and passed the others.
func (i *importRun) matched() []report.ImportedInterface {
	all := []report.ImportedInterface{}
	for _, m := range i.outcome.Matches {
		all = append(all, report.ImportedInterface{
			ENIID: m.Interface.ID, NodeENI: m.Key.NodeENI, Node: m.Key.Node, Ordinal: m.Key.Ordinal,
			Slot: m.Interface.Attachment.Slot.String(),
		})
	}
	return all
}

func (i *importRun) passed() (all []report.SkippedInterface) {
	for _, p := range i.outcome.Passed {
		all = append(all, report.SkippedInterface{ENIID: p.Interface.ID, Why: p.Why})
	}
	return all
}

func (i *importRun) view() report.ImportPlan {
	v := report.ImportPlan{Adopt: i.matched(), Passed: i.passed(), Waiting: i.waiting}
	for _, o := range i.objects {
		v.Objects = append(v.Objects, o.Name)
	}
	return v
}

// isOtherControllerStopped returns an error while the other controller runs: it would create interfaces again that it
// no longer finds.
func (i *importRun) isOtherControllerStopped(ctx context.Context) error {
	if i.from != importer.FromController {
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
		tags := m.Key.Tags(i.now, v1alpha1.Strings(i.nodeENIs[m.Key.NodeENI].Spec.Tags))
		tags[identity.TagImportedFrom] = i.from
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
