// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/status"
)

func anyOutcome(rt *rapid.T) status.Outcome {
	return status.Outcome{
		State:   rapid.SampledFrom([]status.State{status.Ready, status.Progressing, status.Stalled}).Draw(rt, "state"),
		Reason:  rapid.StringMatching(`[A-Z][A-Za-z]{0,20}`).Draw(rt, "reason"),
		Message: rapid.StringN(1, 60, -1).Draw(rt, "message"),
	}
}

// anyMore draws conditions in addition to the three.
func anyMore(rt *rapid.T) []metav1.Condition {
	all := []metav1.Condition{{Type: v1alpha1.ConditionSubnetsResolved}, {Type: v1alpha1.ConditionSecurityGroupsResolved}}
	all = all[:rapid.IntRange(0, 2).Draw(rt, "more")]
	for n := range all {
		all[n].Status = rapid.SampledFrom([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}).Draw(rt, "status")
		all[n].Reason, all[n].Message = "Reason", "message"
	}
	return all
}

func TestWhatSummarizeReturnsIsClean(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var conditions []metav1.Condition
		for generation := range int64(rapid.IntRange(1, 5).Draw(rt, "reports")) {
			o, more := anyOutcome(rt), anyMore(rt)
			conditions = status.Summarize(conditions, generation, o, more...)
			if faults := status.Lint(conditions, generation); len(faults) > 0 {
				rt.Fatalf("%+v: %q", o, faults)
			}
			if meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) != (o.State == status.Ready) {
				rt.Fatalf("%+v is told as %+v", o, conditions)
			}
			wanted := 1 + len(more)
			if o.State != status.Ready {
				wanted++
			}
			if len(conditions) != wanted {
				rt.Fatalf("%d conditions, want %d: %+v", len(conditions), wanted, conditions)
			}
		}
	})
}

// TestSayingTheSameAgainChangesNothing ensures that an idle cluster causes no writes.
func TestSayingTheSameAgainChangesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o, more := anyOutcome(rt), anyMore(rt)
		once := status.Summarize(nil, 1, o, more...)
		for n := range once {
			once[n].LastTransitionTime = metav1.NewTime(time.Unix(1, 0))
		}
		if diff := cmp.Diff(once, status.Summarize(once, 1, o, more...)); diff != "" {
			rt.Error(diff)
		}
	})
}

func TestTransitionTimes(t *testing.T) {
	long := metav1.NewTime(time.Unix(1, 0))
	before := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "A", Message: "a", LastTransitionTime: long}}
	kept := status.Summarize(before, 2, status.Outcome{State: status.Ready, Reason: "B", Message: "b"})
	if !kept[0].LastTransitionTime.Equal(&long) {
		t.Error("the time of a transition that was none is new")
	}
	turned := status.Summarize(before, 2, status.Outcome{State: status.Stalled, Reason: "B", Message: "b"})
	if turned[0].LastTransitionTime.Equal(&long) {
		t.Error("the time of a transition is old")
	}
}

func TestLongMessagesAreCutAtACharacter(t *testing.T) {
	message := strings.Repeat("x", 32767) + "ä and so on"
	for _, c := range status.Summarize(nil, 1, status.Outcome{State: status.Stalled, Reason: "A", Message: message}) {
		if len(c.Message) > 32768 || !utf8.ValidString(c.Message) || c.Message == "" {
			t.Errorf("%s has a message of %d bytes, valid: %t", c.Type, len(c.Message), utf8.ValidString(c.Message))
		}
	}
}

func TestLintFindsFaults(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "R", Message: "m", ObservedGeneration: 1}
	}
	ready, notReady := condition("Ready", metav1.ConditionTrue), condition("Ready", metav1.ConditionFalse)
	reconciling, stalled := condition("Reconciling", metav1.ConditionTrue), condition("Stalled", metav1.ConditionTrue)
	mute, ahead := notReady, notReady
	mute.Message = ""
	ahead.ObservedGeneration = 9
	cases := map[string]struct {
		conditions []metav1.Condition
		faults     int
	}{
		"ready":                      {[]metav1.Condition{ready}, 0},
		"on its way":                 {[]metav1.Condition{notReady, reconciling}, 0},
		"stalled":                    {[]metav1.Condition{notReady, stalled}, 0},
		"nothing":                    {nil, 1},
		"not ready, nobody says why": {[]metav1.Condition{notReady}, 1},
		"ready and on its way":       {[]metav1.Condition{ready, reconciling}, 1},
		"ready and stalled":          {[]metav1.Condition{ready, stalled}, 1},
		"on its way and stalled":     {[]metav1.Condition{notReady, reconciling, stalled}, 1},
		"Reconciling that is False":  {[]metav1.Condition{notReady, stalled, condition("Reconciling", metav1.ConditionFalse)}, 1},
		"no message":                 {[]metav1.Condition{mute, stalled}, 1},
		"ahead of its object":        {[]metav1.Condition{ahead, stalled}, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if faults := status.Lint(tc.conditions, 1); len(faults) != tc.faults {
				t.Errorf("%d faults, want %d: %q", len(faults), tc.faults, faults)
			}
		})
	}
}
