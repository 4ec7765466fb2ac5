// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/networkd"
)

// checkpointFile is the file in the agent's folder with the last known state of its node.
const checkpointFile = "agent.json"

// Checkpoint returns what is worth knowing of a node's state while the API server is away.
func Checkpoint(state *v1alpha1.NodeENIState) *v1alpha1.NodeENIState {
	return &v1alpha1.NodeENIState{
		ObjectMeta: metav1.ObjectMeta{Name: state.Name}, Spec: v1alpha1.NodeENIStateSpec{InstanceID: state.Spec.InstanceID},
		Status: v1alpha1.NodeENIStateStatus{Interfaces: state.Status.Interfaces,
			PodNetworks: basicReports(state.Status.PodNetworks)},
	}
}

// RestoreCheckpoint returns what is certain of a record, or nil: the interfaces that were attached when it was written,
// and that instance metadata shows on this instance still, the same interface behind the same MAC address. The record
// alone may be old, or of another instance, and metadata alone does not say whose an interface is. Devices of programs
// in user space are none of them: to take a link away asks for more certainty. As the controller has not reported on
// what is returned, nothing is taken back.
func RestoreCheckpoint(record *v1alpha1.NodeENIState, node string, known *eni.Metadata) *v1alpha1.NodeENIState {
	if record == nil || known == nil || record.Name != node || record.Spec.InstanceID != known.InstanceID {
		return nil
	}
	certain := Checkpoint(record)
	certain.Status.Interfaces = slices.DeleteFunc(slices.Clone(record.Status.Interfaces),
		func(i v1alpha1.InterfaceState) bool {
			seen := known.ByMAC(i.MACAddress)
			return i.Phase != v1alpha1.PhaseAttached || i.DPDKDriver != "" || seen == nil || seen.ID != i.ENIID ||
				i.MACAddress == known.PrimaryMAC
		})
	return certain
}

// writeCheckpoint writes down what the controller said last. That it says nothing, or not yet, is no reason to forget.
func (a *Agent) writeCheckpoint(s *snapshot) error {
	if a.StateDir == "" || s.recalled || s.state == nil || s.state.Status.ObservedGeneration == 0 {
		return nil
	}
	content, err := json.Marshal(Checkpoint(s.state))
	if err != nil || bytes.Equal(content, a.recorded) {
		return err
	}
	err = os.MkdirAll(a.StateDir, 0o755)
	if err == nil {
		_, err = networkd.Replace(filepath.Join(a.StateDir, checkpointFile), content)
	}
	if err != nil {
		return fmt.Errorf("write down what the node was promised: %w", err)
	}
	a.recorded = content
	return nil
}

// readCheckpoint returns what was written down, or nil.
func (a *Agent) readCheckpoint() (*v1alpha1.NodeENIState, error) {
	if a.StateDir == "" {
		return nil, nil
	}
	content, err := os.ReadFile(filepath.Join(a.StateDir, checkpointFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	record := &v1alpha1.NodeENIState{}
	if err := errors.Join(err, json.Unmarshal(content, record)); err != nil {
		return nil, fmt.Errorf("read what the node was promised: %w", err)
	}
	return record, nil
}
