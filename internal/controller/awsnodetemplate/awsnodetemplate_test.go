// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsnodetemplate_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/awsnodetemplate"
	"github.com/multieni/multieni/internal/controller/controllertest"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/instancetype"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/selector"
)

const (
	cluster  = "cluster-1"
	instance = "i-00000000000000001"
	image    = "ami-0123456789abcdef0"
)

// theImage is the only image that EC2 has.
var theImage = launchtemplate.MachineImage{ID: image, Architecture: "amd64", State: "available"}

// cloud is EC2 with launch templates, and records the calls that change something.
type cloud struct {
	observer.Reader
	now        time.Time
	interfaces []eni.Interface
	templates  map[string]launchtemplate.Existing
	versions   map[string][]launchtemplate.Version
	source     launchtemplate.Version
	images     map[string]string // by instance
	newer      []launchtemplate.MachineImage
	references []launchtemplate.Reference
	types      []string // in addition to those of m5
	rules      []string // groups that the rules of g1 for all traffic name, in both directions
	unasked    error    // why the references cannot be read
	refuse     error
	calls      []string
}

func (c *cloud) said(format string, args ...any) {
	c.calls = append(c.calls, fmt.Sprintf(format, args...))
}

func (c *cloud) ListOwned(context.Context) ([]eni.Interface, time.Time, error) {
	return c.interfaces, c.now, nil
}

func (c *cloud) Subnets(context.Context, selector.SubnetTerms) ([]eni.Subnet, error) {
	return []eni.Subnet{{ID: "s1", Zone: "us-east-1a", VPCID: "v", FreeIPv4: 100, Tags: map[string]string{"net": "a"}}}, nil
}

func (c *cloud) SubnetsOf(context.Context, string) ([]eni.Subnet, error) {
	return []eni.Subnet{
		{ID: "s1", Zone: "us-east-1a", FreeIPv4: 100}, {ID: "s2", Zone: "us-east-1a", FreeIPv4: 200},
		{ID: "s3", Zone: "us-east-1b", FreeIPv4: 50},
	}, nil
}

func (c *cloud) SecurityGroups(context.Context, selector.GroupTerms) ([]eni.SecurityGroup, error) {
	return []eni.SecurityGroup{{ID: "g1", VPCID: "v", Tags: map[string]string{"net": "a"}, AllFrom: c.rules, AllTo: c.rules}}, nil
}

func (c *cloud) InstanceTypes(context.Context) ([]launchtemplate.InstanceType, error) {
	var types []launchtemplate.InstanceType
	for _, name := range append([]string{"m5.large", "m5.xlarge"}, c.types...) {
		limits, _ := instancetype.Offline(name)
		types = append(types, launchtemplate.InstanceType{Name: name, Limits: limits})
	}
	return types, nil
}

func (c *cloud) Images(context.Context, map[string]string) ([]launchtemplate.MachineImage, error) {
	return append([]launchtemplate.MachineImage{theImage}, c.newer...), nil
}

func (c *cloud) ImageByID(_ context.Context, id string) (launchtemplate.MachineImage, error) {
	if id != image {
		return launchtemplate.MachineImage{}, nil
	}
	return theImage, nil
}

func (c *cloud) LaunchTemplateVersion(context.Context, string, string, string) (launchtemplate.Version, error) {
	if c.source.TemplateID == "" {
		return launchtemplate.Version{}, &eni.APIError{Class: eni.NotFound, Code: "InvalidLaunchTemplateId.NotFound"}
	}
	return c.source, nil
}

func (c *cloud) InstancesLaunchedFrom(context.Context, string) (map[string]int64, error) {
	return map[string]int64{instance: 1}, nil
}

func (c *cloud) References(context.Context) ([]launchtemplate.Reference, error) {
	return slices.Clone(c.references), c.unasked
}

func (c *cloud) ImagesOf(context.Context, string, string) (map[string]string, error) {
	return c.images, nil
}

func (c *cloud) LaunchTemplates(context.Context, map[string]string) ([]launchtemplate.Existing, error) {
	var all []launchtemplate.Existing
	for _, t := range c.templates {
		all = append(all, t)
	}
	return all, nil
}

func (c *cloud) LaunchTemplateVersions(_ context.Context, id string) ([]launchtemplate.Version, error) {
	return slices.Clone(c.versions[id]), nil
}

func (c *cloud) CreateLaunchTemplate(_ context.Context, p launchtemplate.NewTemplate) (string, []string, error) {
	c.said("create %s", p.Name)
	id := fmt.Sprintf("lt-%d", len(c.templates)+1)
	c.templates[id] = launchtemplate.Existing{ID: id, Name: p.Name, Tags: p.Tags, Latest: 1}
	c.add(id, 1, p.Hash, p.Data)
	return id, []string{"EC2 warns: it is late"}, nil
}

func (c *cloud) add(id string, number int64, hash string, data launchtemplate.Document) {
	c.versions[id] = append(c.versions[id], launchtemplate.Version{TemplateID: id, Number: number, Description: launchtemplate.Describe(hash), CreatedAt: c.now, Data: launchtemplate.Readable(data)})
}

func (c *cloud) CreateLaunchTemplateVersion(_ context.Context, _, id, hash string, data launchtemplate.Document) (int64, []string, error) {
	number := int64(len(c.versions[id]) + 1)
	c.said("version %d of %s", number, id)
	c.add(id, number, hash, data)
	return number, nil, nil
}

func (c *cloud) DeleteLaunchTemplate(_ context.Context, id string) error {
	c.said("delete %s", id)
	delete(c.templates, id)
	return nil
}

func (c *cloud) DeleteLaunchTemplateVersions(_ context.Context, id string, numbers []int64) error {
	c.said("delete versions %v of %s", numbers, id)
	return nil
}

func (c *cloud) PutTags(_ context.Context, id string, _ map[string]string) error {
	c.said("tag %s", id)
	return nil
}

func (c *cloud) DryRunLaunch(_ context.Context, t launchtemplate.DryRun) error {
	c.said("try %s version %d as %s in %q", t.TemplateID, t.Version, t.InstanceType, t.SubnetID)
	return c.refuse
}

// stage is a reconciler with its inputs.
type stage struct {
	*testing.T
	*cloud
	kube       client.Client
	watch      *observer.Observer
	repairs    *controller.InPlaceUpdates
	reconciler *awsnodetemplate.Reconciler
}

func declared() *v1alpha1.AWSNodeTemplate {
	net := map[string]v1alpha1.TagValue{"net": "a"}
	return &v1alpha1.AWSNodeTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "uid", Generation: 1},
		Spec: v1alpha1.AWSNodeTemplateSpec{
			SubnetSelector: net, SecurityGroupSelector: net, AMISelector: map[string]v1alpha1.TagValue{"aws-ids": image}, UserData: "#!/bin/sh",
			NetworkInterfaces: []v1alpha1.LaunchInterface{{}, {DeviceIndex: 1, Name: "multus", Description: "second"}},
		},
	}
}

func setStage(t *testing.T, object *v1alpha1.AWSNodeTemplate, change ...func(*awsnodetemplate.Options)) *stage {
	t.Helper()
	s := &stage{T: t, repairs: &controller.InPlaceUpdates{}, cloud: &cloud{
		now: time.Unix(1_800_000_000, 0), templates: map[string]launchtemplate.Existing{}, versions: map[string][]launchtemplate.Version{},
	}}
	s.kube = controllertest.API(t, object)
	clock, quiet := func() time.Time { return s.now }, slog.New(slog.DiscardHandler)
	s.watch = observer.New(s.cloud, observer.Options{Cluster: cluster, Now: clock, Log: quiet})
	options := awsnodetemplate.Options{
		Client: s.kube, Events: events.NewFakeRecorder(100), Observer: s.watch, Resolver: resolver.New(s.cloud, resolver.Options{Now: clock}),
		Launches: resolver.NewLaunches(s.cloud, time.Minute, clock), EC2: s.cloud, References: s.cloud.References, KubernetesVersion: func() (string, error) { return "1.35", nil },
		Repairs: s.repairs, Cluster: cluster, SourceRefresh: time.Minute, Relist: time.Minute, Concurrency: 1, Now: clock, Log: quiet,
	}
	for _, c := range change {
		c(&options)
	}
	s.reconciler = awsnodetemplate.New(options)
	s.listed()
	return s
}

func (s *stage) listed() {
	if err := s.watch.ResyncOnce(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// reconcile reconciles the node template, and returns it with the calls that the reconciler made.
func (s *stage) reconcile() (v1alpha1.AWSNodeTemplate, []string) {
	s.Helper()
	s.calls = nil
	key := client.ObjectKey{Name: "default"}
	if _, err := s.reconciler.Reconcile(s.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		s.Fatal(err)
	}
	var object v1alpha1.AWSNodeTemplate
	if err := s.kube.Get(s.Context(), key, &object); client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
	if object.Name != "" {
		for _, fault := range status.Lint(object.Status.Conditions, object.Generation) {
			s.Error(fault)
		}
	}
	return object, s.calls
}

// change changes the declaration.
func (s *stage) change(to func(*v1alpha1.AWSNodeTemplateSpec)) {
	var object v1alpha1.AWSNodeTemplate
	if err := s.kube.Get(s.Context(), client.ObjectKey{Name: "default"}, &object); err != nil {
		s.Fatal(err)
	}
	to(&object.Spec)
	if err := s.kube.Update(s.Context(), &object); err != nil {
		s.Fatal(err)
	}
}

// launch launches an instance, with its node, from the first launch template of the status.
func (s *stage) launch(object v1alpha1.AWSNodeTemplate) {
	p := object.Status.LaunchTemplates[0]
	tags := map[string]string{
		identity.TagCluster: cluster, identity.TagNodeTemplate: "default", identity.TagNodeTemplateUID: "uid", identity.TagTemplateHash: p.ContentHash, identity.TagNoManage: "true",
	}
	for device, description := range []string{"", "second"} {
		i := launchtemplate.Interface{Slot: eni.Slot{Device: device}, Description: description, DeleteOnTermination: true, Groups: []string{"g1"}}.AsLaunched("s1")
		i.ID, i.Tags, i.Zone, i.Attachment.InstanceID = fmt.Sprintf("eni-%d", device), tags, "us-east-1a", instance
		s.interfaces = append(s.interfaces, i)
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{corev1.LabelInstanceTypeStable: "m5.xlarge"}, CreationTimestamp: metav1.NewTime(s.now.Add(-time.Hour))},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///us-east-1a/" + instance},
	}
	if err := s.kube.Create(s.Context(), node); err != nil {
		s.Fatal(err)
	}
	s.listed()
}

func (s *stage) node() (node corev1.Node, condition corev1.NodeCondition) {
	if err := s.kube.Get(s.Context(), client.ObjectKey{Name: "node-1"}, &node); err != nil {
		s.Fatal(err)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == v1alpha1.NodeConditionDrifted {
			condition = c
		}
	}
	return node, condition
}

func reason(object v1alpha1.AWSNodeTemplate) string {
	return apimeta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady).Reason
}

func TestAVersionIsTriedBeforeItIsOfferedAndOnlyOnce(t *testing.T) {
	s := setStage(t, declared())
	object, calls := s.reconcile()
	if reason(object) != v1alpha1.ReasonPublished || len(calls) != 2 || !strings.HasPrefix(calls[1], "try lt-1 version 1") {
		t.Errorf("%s after %q", reason(object), calls)
	}
	if !slices.Contains(object.Status.Warnings, "EC2 warns: it is late") {
		t.Errorf("warnings %q", object.Status.Warnings)
	}
	version := object.ResourceVersion
	if object, calls = s.reconcile(); len(calls) > 0 || object.ResourceVersion != version {
		t.Errorf("at rest: calls %q, status written: %t", calls, object.ResourceVersion != version)
	}
}

func TestWhatEC2WouldRefuseIsNotOffered(t *testing.T) {
	s := setStage(t, declared())
	before, _ := s.reconcile()
	s.refuse = &eni.APIError{Class: eni.Invalid, Code: "InvalidParameterCombination", Message: "no"}
	s.change(func(spec *v1alpha1.AWSNodeTemplateSpec) { spec.UserData = "#!/bin/bash" })
	object, _ := s.reconcile()
	if reason(object) != v1alpha1.ReasonRefused || !slices.Equal(object.Status.LaunchTemplates, before.Status.LaunchTemplates) {
		t.Errorf("%s, offered %+v", reason(object), object.Status.LaunchTemplates)
	}
}

func TestAPermissionThatTheControllerLacksIsAWarning(t *testing.T) {
	s := setStage(t, declared())
	s.refuse = &eni.APIError{Class: eni.Unauthorized, Code: "UnauthorizedOperation"}
	object, _ := s.reconcile()
	if reason(object) != v1alpha1.ReasonPublished || !slices.ContainsFunc(object.Status.Warnings, func(w string) bool { return strings.HasPrefix(w, "not tried") }) {
		t.Errorf("%s, warnings %q", reason(object), object.Status.Warnings)
	}
}

func TestBackAndForthMakesNoThirdVersion(t *testing.T) {
	s := setStage(t, declared())
	s.reconcile()
	for n, user := range []string{"#!/bin/bash", "#!/bin/sh"} {
		s.change(func(spec *v1alpha1.AWSNodeTemplateSpec) { spec.UserData = user })
		object, _ := s.reconcile()
		if want := int64(2 - n); object.Status.LaunchTemplates[0].Version != want {
			t.Errorf("version %d is offered, want %d", object.Status.LaunchTemplates[0].Version, want)
		}
	}
	if len(s.versions["lt-1"]) != 2 {
		t.Errorf("%d versions", len(s.versions["lt-1"]))
	}
}

func TestReasonsNotToRender(t *testing.T) {
	cases := map[string]struct {
		change func(*v1alpha1.AWSNodeTemplateSpec)
		is     launchtemplate.Reason
	}{
		"an override that is not allowed": {func(s *v1alpha1.AWSNodeTemplateSpec) {
			s.LaunchTemplateOverride = &runtime.RawExtension{Raw: []byte(`{"EbsOptimized":true}`)}
		}, launchtemplate.OverrideNotAllowed},
		"an image that is not there": {func(s *v1alpha1.AWSNodeTemplateSpec) { s.AMISelector["aws-ids"] = "ami-00000000000000000" }, launchtemplate.ImageRequired},
		"a launch template that is not there": {func(s *v1alpha1.AWSNodeTemplateSpec) {
			fill := true
			s.LaunchTemplateRef, s.Autofill = &v1alpha1.LaunchTemplateRef{Name: "base", Version: "$Latest"}, &fill
		}, launchtemplate.SourceNotFound},
		"more interfaces than any type takes": {func(s *v1alpha1.AWSNodeTemplateSpec) {
			for n := range int32(8) {
				s.NetworkInterfaces = append(s.NetworkInterfaces, v1alpha1.LaunchInterface{DeviceIndex: n + 2})
			}
		}, launchtemplate.NoEligibleInstanceType},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object := declared()
			tc.change(&object.Spec)
			s := setStage(t, object)
			if got, calls := s.reconcile(); reason(got) != string(tc.is) || len(calls) > 0 {
				t.Errorf("%s after %q, want %s and no call", reason(got), calls, tc.is)
			}
		})
	}
}

func TestANodeIsLabelledAndTellsOfItsDrift(t *testing.T) {
	s := setStage(t, declared())
	object, _ := s.reconcile()
	s.launch(object)
	object, _ = s.reconcile()
	node, c := s.node()
	if object.Status.Nodes != 1 || c.Status != corev1.ConditionFalse || node.Labels["network.networking.k8s.aws/multus"] != "true" {
		t.Errorf("%d nodes, %+v, labels %v", object.Status.Nodes, c, node.Labels)
	}
	if got := node.Status.Capacity["network.networking.k8s.aws/multus"]; got.Value() != 1 {
		t.Errorf("capacity %v", node.Status.Capacity)
	}
	version := node.ResourceVersion
	if s.reconcile(); version != first(s.node()).ResourceVersion {
		t.Error("a node at rest is written")
	}

	s.change(func(spec *v1alpha1.AWSNodeTemplateSpec) { spec.UserData = "#!/bin/bash" })
	object, _ = s.reconcile()
	if _, c = s.node(); object.Status.Drifted != 1 || c.Reason != string(launchtemplate.Static) || !strings.Contains(c.Message, "userData") {
		t.Errorf("%d drifted, %+v", object.Status.Drifted, c)
	}
	if standing := s.reconciler.Counts()["default"]; standing.Nodes != 1 || standing.Drifted["userData"] != 1 {
		t.Errorf("for metrics %+v", standing)
	}
}

// TestAPatchedImageIsDrift checks an image that a parameter of its family names: AWS changes the parameter to another
// image, and nothing changes in the declaration.
func TestAPatchedImageIsDrift(t *testing.T) {
	object := declared()
	object.Spec.AMIFamily, object.Spec.AMISelector, object.Spec.UserData = v1alpha1.AMIFamily(launchtemplate.AL2023), nil, ""
	object.Spec.Cluster = &v1alpha1.ClusterAccess{Name: "blue", Endpoint: "https://blue", CertificateAuthority: "Yg==", ServiceCIDR: "172.20.0.0/16"}
	s := setStage(t, object)
	got, _ := s.reconcile()
	s.launch(got)
	s.images = map[string]string{instance: image}
	for _, c := range []struct {
		name, stands string
		status       corev1.ConditionStatus
	}{
		{"nobody may know", "", corev1.ConditionFalse},
		{"as launched", image, corev1.ConditionFalse},
		{"patched", "ami-0fedcba9876543210", corev1.ConditionTrue},
		{"and back", image, corev1.ConditionFalse},
	} {
		s.source = launchtemplate.Version{}
		if c.stands != "" {
			s.source = launchtemplate.Version{TemplateID: "lt-1", Data: launchtemplate.Document{"ImageId": c.stands}}
		}
		s.now = s.now.Add(time.Hour)
		s.listed()
		got, _ = s.reconcile()
		if warned := slices.ContainsFunc(got.Status.Warnings, func(w string) bool { return strings.Contains(w, "not detected") }); warned != (c.stands == "") {
			t.Errorf("%s: warnings %q", c.name, got.Status.Warnings)
		}
		if _, condition := s.node(); condition.Status != c.status || c.status == corev1.ConditionTrue && !strings.Contains(condition.Message, "amiSelector: want "+c.stands+", have "+image+" (Dynamic") {
			t.Errorf("%s: %+v", c.name, condition)
		}
	}
}

func first(n corev1.Node, _ corev1.NodeCondition) corev1.Node { return n }

func TestRepairsGoToTheNodeReconciler(t *testing.T) {
	for policy, repairs := range map[v1alpha1.InPlacePolicy]int{"Repair": 1, v1alpha1.InPlaceReport: 0} {
		s := setStage(t, declared())
		object, _ := s.reconcile()
		s.launch(object)
		s.change(func(spec *v1alpha1.AWSNodeTemplateSpec) {
			spec.NetworkInterfaces[1].Description, spec.DriftPolicy.InPlace = "other", policy
		})
		s.reconcile()
		got := s.repairs.Of(instance)
		if len(got) != repairs || repairs == 1 && (got[0].InterfaceID != "eni-1" || *got[0].Description != "other" || got[0].Groups != nil) {
			t.Errorf("%s: %+v", policy, got)
		}
	}
}
