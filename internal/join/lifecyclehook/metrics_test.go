// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/join/lifecyclehook"
)

// Every event is counted by its result.
func TestEventsAreCounted(t *testing.T) {
	served := map[string]string{"multus-ng": "", "aws:autoscaling:groupName": "multus-group"}
	launching := hookEvent("LAUNCHING", "multus-hook")
	for name, tc := range map[string]*struct {
		body string
		environment
		kind   lifecycle.Kind
		result lifecyclehook.Result
	}{
		"an instance that is prepared":    {body: launching, environment: environment{tags: served, outcome: lifecycle.Ready}, kind: lifecycle.Launching, result: "Ready"},
		"one that cannot be":              {body: launching, environment: environment{tags: served, outcome: lifecycle.Failed}, kind: lifecycle.Launching, result: "Failed"},
		"one that ended meanwhile":        {body: launching, environment: environment{tags: served, outcome: lifecycle.Gone}, kind: lifecycle.Launching, result: "Gone"},
		"one of somebody else's":          {body: launching, kind: lifecycle.Launching, result: lifecyclehook.NotServed},
		"one for which no certainty came": {body: launching, environment: environment{tags: served, fails: errors.New("throttled")}, kind: lifecycle.Launching, result: lifecyclehook.Retry},
		"a tick":                          {body: tick, kind: lifecycle.Scheduled, result: lifecyclehook.Done},
		"no event":                        {body: "{}", result: lifecyclehook.Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc.state, tc.takes = eni.InstanceRunning, 3*time.Second
				_ = tc.handler().Handle(t.Context(), []byte(tc.body)) // what it returns is another test's
				if len(tc.told) != 1 || tc.told[0].Kind != tc.kind || tc.told[0].Result != tc.result {
					t.Fatalf("it told of %+v", tc.told)
				}
				if took := tc.told[0].Took; slices.ContainsFunc(tc.did, func(did string) bool { return strings.HasPrefix(did, "ensure") }) != (took == tc.takes) {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// For every instance, including those of a scheduled check, the attached interfaces and the reason of a failure are
// counted.
func TestInstancesAreCounted(t *testing.T) {
	served := map[string]string{"multus-ng": "", "aws:autoscaling:groupName": "multus-group"}
	for name, tc := range map[string]*struct {
		body string
		environment
		want []lifecyclehook.Prepared
	}{
		"a launch":                     {hookEvent("LAUNCHING", "multus-hook"), environment{tags: served, outcome: lifecycle.Ready}, []lifecyclehook.Prepared{{Attached: 2}}},
		"a tick":                       {tick, environment{tags: served, outcome: lifecycle.Ready}, []lifecyclehook.Prepared{{Attached: 2}}},
		"what cannot be had":           {tick, environment{tags: served, outcome: lifecycle.Failed}, []lifecyclehook.Prepared{{Attached: 2, Failure: "SubnetFull"}}},
		"no certainty":                 {tick, environment{tags: served, fails: errors.New("throttled")}, []lifecyclehook.Prepared{{Attached: 2}}},
		"an instance that is not ours": {hookEvent("LAUNCHING", "multus-hook"), environment{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc.state = eni.InstanceRunning
				_ = tc.handler().Handle(t.Context(), []byte(tc.body)) // what it returns is another test's
				if diff := cmp.Diff(tc.want, tc.prepared); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// CloudWatch creates metrics from lines that name the members that are metrics.
func TestEmbeddedMetrics(t *testing.T) {
	for name, tc := range map[string]struct {
		tell func(lifecyclehook.Observer)
		want []map[string]any
	}{
		"an event": {
			func(o lifecyclehook.Observer) {
				o.Handled(lifecyclehook.Handled{Kind: lifecycle.Launching, Result: "Ready", Took: 3 * time.Second})
			},
			[]map[string]any{{"kind": "Launching", "result": "Ready", "LifecycleEvents Count": 1.0, "LifecycleEventDuration Milliseconds": 3000.0}},
		},
		"an instance with its interfaces": {
			func(o lifecyclehook.Observer) { o.Prepared(lifecyclehook.Prepared{Attached: 2}) }, []map[string]any{{"InterfacesAttached Count": 2.0}},
		},
		"an instance without": {
			func(o lifecyclehook.Observer) { o.Prepared(lifecyclehook.Prepared{Attached: 1, Failure: "SubnetFull"}) },
			[]map[string]any{{"InterfacesAttached Count": 1.0}, {"reason": "SubnetFull", "InstancesFailed Count": 1.0}},
		},
		"an instance that had everything": {func(o lifecyclehook.Observer) { o.Prepared(lifecyclehook.Prepared{}) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var written bytes.Buffer
			tc.tell(lifecyclehook.EmbeddedMetrics{To: &written})
			var got []map[string]any
			for line := range strings.Lines(written.String()) {
				got = append(got, measured(t, line))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// measured reads a line as CloudWatch does: only the members that its directives name.
func measured(t *testing.T, text string) map[string]any {
	t.Helper()
	var line struct {
		AWS struct {
			Timestamp         int64
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
	}
	var members map[string]any
	if err := errors.Join(json.Unmarshal([]byte(text), &line), json.Unmarshal([]byte(text), &members)); err != nil {
		t.Fatal(err)
	}
	if len(line.AWS.CloudWatchMetrics) != 1 || line.AWS.CloudWatchMetrics[0].Namespace != "multieni" || time.Since(time.UnixMilli(line.AWS.Timestamp)) > time.Minute {
		t.Fatalf("it wrote %s", text)
	}
	values := map[string]any{}
	for _, name := range slices.Concat(line.AWS.CloudWatchMetrics[0].Dimensions...) {
		values[name] = members[name]
	}
	for _, metric := range line.AWS.CloudWatchMetrics[0].Metrics {
		values[metric.Name+" "+metric.Unit] = members[metric.Name]
	}
	return values
}
