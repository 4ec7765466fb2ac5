// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/multieni/multieni/awssim/autoscaling"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/events"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/lambda"
	"github.com/multieni/multieni/awssim/sqs"
	"github.com/multieni/multieni/awssim/ssm"
	"github.com/multieni/multieni/awssim/timeline"
)

// StateVersion is the version of the saved states that this package writes. It grows when a change makes a state
// unreadable for the packages before it.
const StateVersion = 1

// SavedState is all that a simulator holds: resources of all services with their earlier versions, what is in flight,
// tokens, counters, faults and counts. Not in it are the other [Options].
type SavedState struct {
	Version int `json:"version"`
	// MachineTime and Time are the time of the machine and the simulated time of the save.
	MachineTime time.Time `json:"machineTime"`
	Time        time.Time `json:"time"`

	World          World                `json:"world"`
	Seed           uint64               `json:"seed"`
	Timeline       timeline.Saved       `json:"timeline"`
	Faults         fault.Saved          `json:"faults"`
	EC2            ec2.Saved            `json:"ec2"`
	AutoScaling    autoscaling.Saved    `json:"autoScaling"`
	SQS            sqs.Saved            `json:"sqs"`
	EventBridge    events.Saved         `json:"eventBridge"`
	Lambda         lambda.Saved         `json:"lambda"`
	SystemsManager ssm.Saved            `json:"systemsManager"`
	MetadataTokens map[string]time.Time `json:"metadataTokens"`

	Requests uint64             `json:"requests"`
	Random   []byte             `json:"random"`
	Buckets  map[string]float64 `json:"buckets"`
	Calls    savedCalls         `json:"calls"`
}

// Clock is the clock for [Options] that goes on from the state, speed times as fast as that of the machine. The time
// that has passed since the save has passed in it, too, as in AWS; it never goes back.
func (s *SavedState) Clock(speed float64) Clock {
	now := time.Now()
	offset := max(s.Time.Sub(s.MachineTime), s.Time.Sub(now))
	return scaledClock{start: now, offset: offset, speed: speed}
}

// savedModels are the saved models of an account; all are nil without a state.
type savedModels struct {
	ec2         *ec2.Saved
	autoScaling *autoscaling.Saved
	sqs         *sqs.Saved
	events      *events.Saved
	lambda      *lambda.Saved
}

func (s *SavedState) models() savedModels {
	return savedModels{&s.EC2, &s.AutoScaling, &s.SQS, &s.EventBridge, &s.Lambda}
}

// load restores what the models do not restore by themselves.
func (a *account) load(s *SavedState) error {
	a.ssm.Load(s.SystemsManager)
	if err := a.faults.Load(s.Faults); err != nil {
		return fmt.Errorf("saved faults: %w", err)
	}
	if err := a.timeline.Load(s.Timeline); err != nil {
		return fmt.Errorf("saved timeline: %w", err)
	}
	a.lambda.EndProcesses("Runtime.ExitError: awssim was started again")
	return nil
}

// load restores what is not part of the account.
func (s *Simulator) load(state *SavedState) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.source.UnmarshalBinary(state.Random); err != nil {
		return fmt.Errorf("saved random: %w", err)
	}
	s.requests = state.Requests
	s.throttle.load(state.Buckets, state.Time)
	s.recorder = loadRecorder(state.Calls)
	s.tokens.Load(state.MetadataTokens)
	return nil
}

// Save writes all that the simulator holds as JSON. No call is answered meanwhile.
func (s *Simulator) Save(w io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, err := s.state()
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	return encoder.Encode(state)
}

// state shares memory with the models. The caller holds the lock until it is encoded.
func (s *Simulator) state() (*SavedState, error) {
	a := s.account
	a.advance(s.clock.Now())
	now := a.timeline.Now()
	state := &SavedState{
		Version: StateVersion, MachineTime: time.Now().UTC(), Time: now.UTC(), World: s.options.World, Seed: s.options.Seed,
		SystemsManager: a.ssm.Save(), MetadataTokens: s.tokens.Save(), Requests: s.requests,
		Buckets: s.throttle.save(now), Calls: s.recorder.save(),
	}
	var failed [8]error
	state.Timeline, failed[0] = a.timeline.Save()
	state.Faults, failed[1] = a.faults.Save()
	state.EC2, failed[2] = a.ec2.Save()
	state.AutoScaling, failed[3] = a.autoScaling.Save()
	state.SQS, failed[4] = a.sqs.Save()
	state.EventBridge, failed[5] = a.bus.Save()
	state.Lambda, failed[6] = a.lambda.Save()
	state.Random, failed[7] = s.source.MarshalBinary()
	return state, errors.Join(failed[:]...)
}

// SaveFile writes the state into [Options.StateFile]. The file always has a whole state: it is replaced when the new
// one is on the disk.
func (s *Simulator) SaveFile() error {
	path := s.options.StateFile
	if path == "" {
		return errors.New("there is no file to save the state in: start awssim with --state FILE")
	}
	// A link stays, and the file that it leads to is replaced.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	var text bytes.Buffer
	if err := s.Save(&text); err != nil {
		return fmt.Errorf("save the state: %w", err)
	}
	// Only its owner may read the file, since user data can have secrets.
	draft, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("save the state: %w", err)
	}
	_, err = draft.Write(text.Bytes())
	err = errors.Join(err, draft.Sync(), draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("save the state: %w; %s is as it was", err, path), os.Remove(draft.Name()))
	}
	return nil
}

// ReadStateFile reads a file that [Simulator.SaveFile] wrote. If there is none, the error is fs.ErrNotExist. It does
// not change the file.
func ReadStateFile(path string) (*SavedState, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the state: %w", err)
	}
	state, err := ReadState(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return state, nil
}

// ReadState reads what [Simulator.Save] wrote. It refuses a state of a later version, and members that it does not
// know.
func ReadState(text []byte) (*SavedState, error) {
	var header struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &header); err != nil {
		return nil, damaged(text, 0, err)
	}
	switch {
	case header.Version < 1:
		return nil, errors.New("it is not a saved state of awssim: it has no version")
	case header.Version > StateVersion:
		return nil, fmt.Errorf("the state has version %d, and this awssim reads up to version %d: "+
			"use the awssim that wrote it, or a later one", header.Version, StateVersion)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	state := &SavedState{}
	if err := decoder.Decode(state); err != nil {
		return nil, damaged(text, decoder.InputOffset(), err)
	}
	return state, nil
}

// damaged says where a state stops being readable.
func damaged(text []byte, offset int64, err error) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("the file is empty, and no saved state")
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = e.Offset
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset = e.Offset
	}
	offset = min(max(offset, 0), int64(len(text)))
	before := text[:offset]
	line, column := 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n')-1
	return fmt.Errorf("line %d, column %d: the state is damaged: %w", line, max(column, 1), err)
}
