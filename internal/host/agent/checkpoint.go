// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/host/networkd"
)

// checkpointFile is the file in the agent's folder with the last known state of its node.
const checkpointFile = "agent.json"

// Checkpoint returns the part of a node's state that the agent needs while the API server is unreachable.
func Checkpoint(state *v1alpha1.NodeENIState) *v1alpha1.NodeENIState {
	return &v1alpha1.NodeENIState{
		ObjectMeta: metav1.ObjectMeta{Name: state.Name}, Spec: v1alpha1.NodeENIStateSpec{InstanceID: state.Spec.InstanceID},
		Status: v1alpha1.NodeENIStateStatus{Interfaces: state.Status.Interfaces,
			PodNetworks: basicReports(state.Status.PodNetworks)},
	}
}

// RestoreCheckpoint returns the confirmed part of a checkpoint, or nil: the interfaces that were attached when it was
// written, and that instance metadata still lists on this instance with the same ID and MAC address. The checkpoint
// alone may be old, or of another instance, and metadata alone does not name the owner of an interface. The result has
// no devices of programs in user space: binding one removes its link, which needs more evidence. The result has no
// observed generation, so the agent restores nothing because of it. An interface has only the prefixes that metadata
// lists as well: EC2 may have given another one to another node since.
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
	for n := range certain.Status.Interfaces {
		i := &certain.Status.Interfaces[n]
		seen := known.ByMAC(i.MACAddress)
		i.IPv4Prefixes, i.IPv6Prefixes = listed(i.IPv4Prefixes, seen.IPv4Prefixes), listed(i.IPv6Prefixes, seen.IPv6Prefixes)
	}
	return certain
}

// listed returns the prefixes that instance metadata lists.
func listed(recorded []string, seen []netip.Prefix) []string {
	return slices.DeleteFunc(slices.Clone(recorded), func(text string) bool {
		prefix, err := netip.ParsePrefix(text)
		return err != nil || !slices.Contains(seen, prefix)
	})
}

// writeCheckpoint stores the last report of the controller. Without a report on this instance, the existing checkpoint
// stays. One that was lost or damaged since the last pass is written again.
func (a *Agent) writeCheckpoint(s *snapshot) error {
	if a.WriteCheckpoint == nil || s.recalled || s.state == nil || s.isOthers() ||
		s.state.Status.ObservedGeneration == 0 {
		return nil
	}
	if err := a.WriteCheckpoint(Checkpoint(s.state)); err != nil {
		return fmt.Errorf("store the checkpoint: %w", err)
	}
	return nil
}

// writeCheckpointFile stores a checkpoint in the agent's folder.
func (a *Agent) writeCheckpointFile(checkpoint *v1alpha1.NodeENIState) error {
	content, err := json.Marshal(checkpoint)
	if err == nil {
		err = os.MkdirAll(a.StateDir, 0o755)
	}
	if err == nil {
		_, err = networkd.Replace(filepath.Join(a.StateDir, checkpointFile), content)
	}
	return err
}

// readCheckpoint returns the stored checkpoint, or nil.
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
		return nil, fmt.Errorf("read the checkpoint: %w", err)
	}
	return record, nil
}
