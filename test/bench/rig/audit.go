// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

// user is the controller's user at the API server, which distinguishes its writes in the audit log.
const user = "bench-controller"

// event has the fields of an audit event (audit.k8s.io/v1) that the rig reads.
type event struct {
	ImpersonatedUser *struct {
		Username string `json:"username"`
	} `json:"impersonatedUser"`
	ObjectRef struct {
		Resource string `json:"resource"`
	} `json:"objectRef"`
	Received time.Time `json:"requestReceivedTimestamp"`
	Answered time.Time `json:"stageTimestamp"`
}

// isOurs reports whether the event is a write of the controller that counts. Renewals of leases do not.
func (e event) isOurs() bool {
	return e.ImpersonatedUser != nil && e.ImpersonatedUser.Username == user && e.ObjectRef.Resource != "leases"
}

// audit follows an audit log and reads each line once.
type audit struct {
	path   string
	read   int64 // bytes of whole lines
	events []event
}

// writes are the controller's writes to the API server.
type writes struct {
	count   int
	ofNodes int             // those that change a Node
	latency []time.Duration // sorted
}

// since returns the writes of the controller after a time.
func (a *audit) since(from time.Time) (writes, error) {
	if err := a.follow(); err != nil {
		return writes{}, err
	}
	var w writes
	for _, e := range a.events {
		if !e.Received.Before(from) {
			w.count++
			if e.ObjectRef.Resource == "nodes" {
				w.ofNodes++
			}
			w.latency = append(w.latency, e.Answered.Sub(e.Received))
		}
	}
	slices.Sort(w.latency)
	return w, nil
}

// follow reads new lines of the log. It leaves an incomplete line for the next call.
func (a *audit) follow() error {
	file, err := os.Open(a.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was written yet
	} else if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, a.read, 1<<62))
	if err != nil {
		return err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	a.read += int64(len(text))
	for line := range bytes.Lines(text) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("audit log %s: %w", a.path, err)
		}
		if e.isOurs() {
			a.events = append(a.events, e)
		}
	}
	return nil
}

// p99 is the 99th percentile of the writes' durations, in seconds.
func (w writes) p99() float64 {
	if len(w.latency) == 0 {
		return 0
	}
	return w.latency[len(w.latency)*99/100].Seconds()
}
