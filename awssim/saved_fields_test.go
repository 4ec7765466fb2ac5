// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim_test

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/autoscaling"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/events"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/imds"
	"github.com/multieni/multieni/awssim/lambda"
	"github.com/multieni/multieni/awssim/sqs"
	"github.com/multieni/multieni/awssim/ssm"
	"github.com/multieni/multieni/awssim/timeline"
)

// unsaved are the fields of models and of what they hold that no saved state has under their name, each with its reason.
var unsaved = map[string]string{
	"awssim.Simulator.options":       "settings; world and seed are saved",
	"awssim.Simulator.clock":         "Time and MachineTime",
	"awssim.Simulator.log":           "a setting",
	"awssim.Simulator.services":      "the same for all",
	"awssim.Simulator.control":       "the same for all",
	"awssim.Simulator.runtime":       "the same for all",
	"awssim.Simulator.tokens":        "MetadataTokens",
	"awssim.Simulator.haveFunctions": "follows from the functions",
	"awssim.Simulator.firstFunction": "follows from the functions",
	"awssim.Simulator.mu":            "a lock",
	"awssim.Simulator.account":       "its fields are checked by themselves",
	"awssim.Simulator.throttle":      "Buckets",
	"awssim.Simulator.recorder":      "Calls",
	"awssim.Simulator.source":        "Random",
	"awssim.Simulator.changed":       "clients that wait are gone",
	"awssim.Simulator.wake":          "clients that wait are gone",

	"awssim.account.bus": "EventBridge",
	"awssim.account.ssm": "SystemsManager",

	"awssim.recorder.actions": "Counts", "awssim.recorder.next": "Recent begins with the oldest",
	"imds.Tokens.mu": "a lock", "imds.Tokens.expires": "MetadataTokens",

	"timeline.Timeline.due": "Planned", "timeline.Timeline.running": "no event happens during a save",
	"timeline.Timeline.kinds": "the models define them", "timeline.event.do": "follows from the kind",

	"fault.Set.source": "Random",

	"ec2.Model.region": "the world has it", "ec2.Model.account": "the world has it", "ec2.Model.world": "SavedState.World",
	"ec2.Model.behavior": "a setting", "ec2.Model.faults": "SavedState.Faults", "ec2.Model.seed": "SavedState.Seed",
	"ec2.Model.source": "Random", "ec2.Model.networkSource": "NetworkRandom", "ec2.Model.networkIDs": "NetworkRandom",
	"ec2.Model.timeline": "SavedState.Timeline", "ec2.Model.events": "the same for all",
	"ec2.Model.watchers": "the models add themselves", "ec2.Model.zones": "the world has them",
	"ec2.Model.pools": "follow from interfaces and reservations",
	"ec2.Model.live":  "the number of interfaces",
	"ec2.table.name":  "the key in Tables", "ec2.table.kind": "the same for all", "ec2.table.order": "follows from entries",
	"ec2.table.index": "follows from entries", "ec2.table.unsettled": "follows from entries",
	"ec2.Instance.internal": "saved next to the instance", "ec2.Fleet.internal": "saved next to the fleet",
	"ec2.Instance.InstanceNetworkInterfaces": "set at a read", "ec2.Instance.InstanceConstants": "set at a read",
	"ec2.VPC.attributes": "saved beside the VPC", "ec2.NetworkInterface.Operator": "the same for all",
	"ec2.CreateFleetInput.role": "fleetInternals.IAMRole",

	"sqs.Model.behavior": "a setting", "sqs.Model.region": "the world has it", "sqs.Model.account": "the world has it",
	"sqs.Model.timeline": "SavedState.Timeline", "sqs.Model.faults": "SavedState.Faults", "sqs.Model.source": "Random",
	"sqs.Model.watchers": "the models add themselves", "sqs.Model.ready": "the same for all",

	"events.Bus.options": "settings", "events.Bus.source": "Random", "events.Bus.arrival": "the same for all",

	"lambda.Model.options": "settings", "lambda.Model.timeline": "SavedState.Timeline", "lambda.Model.source": "Random",
	"lambda.Model.events": "the same for all",

	"autoscaling.Model.options": "settings", "autoscaling.Model.timeline": "SavedState.Timeline",
	"autoscaling.Model.ec2": "SavedState.EC2", "autoscaling.Model.source": "Random", "autoscaling.Model.events": "the same for all",
	"autoscaling.Group.SuspendedProcesses": "the same for all", "autoscaling.Group.LoadBalancerNames": "the same for all",
	"autoscaling.Group.TargetGroupARNs": "the same for all", "autoscaling.Group.EnabledMetrics": "the same for all",
	"autoscaling.Group.TrafficSources": "the same for all",
	"autoscaling.Group.hooks":          "savedGroup.Hooks", "autoscaling.Group.activities": "savedGroup.Activities",
	"autoscaling.Group.history": "savedGroup.History", "autoscaling.Group.retry": "savedGroup.Retry",
	"autoscaling.Group.deleting": "savedGroup.Deleting", "autoscaling.Instance.subnet": "savedInstance.Subnet",
	"autoscaling.Instance.running": "savedInstance.Running", "autoscaling.Instance.actions": "savedInstance.Actions",

	"ssm.Model.ec2": "SavedState.EC2", "ssm.Model.timeline": "SavedState.Timeline",
}

// TestEveryFieldIsSaved finds the field that someone adds to a model and forgets in saved states: each field of what
// changes at a call has one of the same name in the saved state, or says in the list above why it needs none.
func TestEveryFieldIsSaved(t *testing.T) {
	reasons := map[string]bool{}
	excused := func(name string) bool {
		_, listed := unsaved[name]
		reasons[name] = true
		return listed
	}
	state := reflect.TypeFor[awssim.SavedState]()
	simulator := reflect.TypeFor[awssim.Simulator]()
	recorder := field(t, simulator, "recorder")
	for _, pair := range []struct{ live, saved reflect.Type }{
		{simulator, state},
		{field(t, simulator, "account"), state},
		{recorder, field(t, state, "Calls")},
		{reflect.TypeFor[imds.Tokens](), state},
		{reflect.TypeFor[timeline.Timeline](), reflect.TypeFor[timeline.Saved]()},
		{field(t, reflect.TypeFor[timeline.Timeline](), "due").Elem(), reflect.TypeFor[timeline.SavedEvent]()},
		{reflect.TypeFor[fault.Set](), reflect.TypeFor[fault.Saved]()},
		{reflect.TypeFor[ec2.Model](), reflect.TypeFor[ec2.Saved]()},
		{reflect.TypeFor[autoscaling.Model](), reflect.TypeFor[autoscaling.Saved]()},
		{reflect.TypeFor[sqs.Model](), reflect.TypeFor[sqs.Saved]()},
		{reflect.TypeFor[events.Bus](), reflect.TypeFor[events.Saved]()},
		{reflect.TypeFor[lambda.Model](), reflect.TypeFor[lambda.Saved]()},
		{reflect.TypeFor[ssm.Model](), reflect.TypeFor[ssm.Saved]()},
	} {
		for f := range pair.live.Fields() {
			_, has := pair.saved.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, f.Name) })
			if name := nameOf(pair.live) + "." + f.Name; !has && !isTable(f.Type) && !excused(name) {
				t.Errorf("%s has no %s: save it, or say in this test why it need not be", pair.saved, name)
			}
		}
	}
	w := walker{t: t, excused: excused, seen: map[reflect.Type]bool{}}
	w.walk(state)
	for f := range reflect.TypeFor[ec2.Model]().Fields() {
		if isTable(f.Type) && !filledAtFirstUse(f.Name) {
			w.table(f.Type.Elem())
		}
	}
	w.internal(reflect.TypeFor[ec2.Instance]())
	w.internal(reflect.TypeFor[ec2.Fleet]())
	w.walk(field(t, reflect.TypeFor[ec2.VPC](), "attributes"))
	for name := range unsaved {
		if !reasons[name] {
			t.Errorf("%s does not exist, or is saved: remove it from the list", name)
		}
	}
}

// TestEveryTableIsSaved finds the table that someone adds to the model of EC2 without a name.
func TestEveryTableIsSaved(t *testing.T) {
	m, err := ec2.New(ec2.Options{World: awssim.ExampleWorld().World})
	if err != nil {
		t.Fatal(err)
	}
	saved, err := m.Save()
	if err != nil {
		t.Fatal(err)
	}
	tables := 0
	for f := range reflect.TypeFor[ec2.Model]().Fields() {
		if isTable(f.Type) && !filledAtFirstUse(f.Name) {
			tables++
		}
	}
	if len(saved.Tables) != tables {
		t.Errorf("the model has %d tables, and the saved state %d: store gives a table its name", tables, len(saved.Tables))
	}
}

// filledAtFirstUse reports whether a table has only facts that are the same for all.
func filledAtFirstUse(table string) bool { return table == "types" || table == "offerings" }

// field returns the type of a field, without its pointer.
func field(t *testing.T, of reflect.Type, name string) reflect.Type {
	t.Helper()
	f, ok := of.FieldByName(name)
	if !ok {
		t.Fatalf("%s has no %s", of, name)
	}
	if f.Type.Kind() == reflect.Pointer {
		return f.Type.Elem()
	}
	return f.Type
}

// nameOf is the name of a type without its parameters.
func nameOf(of reflect.Type) string {
	name, _, _ := strings.Cut(of.String(), "[")
	return name
}

func isTable(of reflect.Type) bool { return strings.HasPrefix(of.String(), "*ec2.table[") }

// walker finds the fields that encoding/json leaves out.
type walker struct {
	t       *testing.T
	excused func(string) bool
	seen    map[reflect.Type]bool
}

var (
	ownJSON = reflect.TypeFor[json.Marshaler]()
	ownText = reflect.TypeFor[encoding.TextMarshaler]()
)

func (w walker) walk(of reflect.Type) {
	if w.seen[of] || of.Implements(ownJSON) || of.Implements(ownText) {
		return
	}
	w.seen[of] = true
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		w.walk(of.Elem())
	case reflect.Map:
		w.walk(of.Key())
		w.walk(of.Elem())
	case reflect.Struct:
		for f := range of.Fields() {
			name := nameOf(of) + "." + f.Name
			switch {
			case w.excused(name):
			case !f.IsExported() && !f.Anonymous || f.Tag.Get("json") == "-":
				w.t.Errorf("encoding/json leaves out %s: export it, or say in this test why it need not be saved", name)
			default:
				w.walk(f.Type)
			}
		}
	case reflect.Func, reflect.Chan:
		w.t.Errorf("encoding/json cannot encode %s", of)
	default:
	}
}

// table checks a table of EC2, and the resources in it.
func (w walker) table(of reflect.Type) {
	for f := range of.Fields() {
		if f.Name != "entries" && !w.excused("ec2.table."+f.Name) {
			w.t.Errorf("a table has %s: save it, or say in this test why it need not be", f.Name)
		}
	}
	entry := field(w.t, of, "entries").Elem().Elem()
	w.same(entry, "versions", "hiddenUntil")
	version := field(w.t, entry, "versions").Elem()
	w.same(version, "value", "since", "visible")
	w.walk(field(w.t, version, "value"))
}

// same checks that a struct has only fields that are saved.
func (w walker) same(of reflect.Type, saved ...string) {
	for f := range of.Fields() {
		if !slices.Contains(saved, f.Name) {
			w.t.Errorf("%s has %s, which is not saved", of, f.Name)
		}
	}
}

// internal checks what is saved next to a resource.
func (w walker) internal(of reflect.Type) { w.walk(field(w.t, of, "internal")) }
