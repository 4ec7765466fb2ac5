// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/imds"
)

// actionMetadata is what faults call a request to the instance metadata service; its resource is the instance ID.
const actionMetadata = "InstanceMetadata"

// metadataPath is the path of the metadata services of all instances, for clients that can use a path.
const metadataPath = "/_imds/"

// Metadata returns the instance metadata service of an instance, for a listener of its own: the service on the
// simulator's own port is for clients that can name the instance, see package imds.
func (s *Simulator) Metadata(instanceID string) http.Handler { return s.metadata(instanceID, 1) }

func (s *Simulator) metadata(instanceID string, hops int) http.Handler {
	service := imds.Handler(metadataSource{s, instanceID}, &s.tokens, hops)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.metadataFails(w, r, instanceID) {
			return
		}
		service.ServeHTTP(w, r)
	})
}

type metadataSource struct {
	simulator  *Simulator
	instanceID string
}

// Metadata is part of imds.Source.
func (m metadataSource) Metadata() (*ec2.Metadata, error) {
	s := m.simulator
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.account.ec2.Metadata(s.call(), m.instanceID)
}

// Now is part of imds.Source.
func (m metadataSource) Now() time.Time { return m.simulator.clock.Now() }

// metadataFails applies faults, and reports whether the request was answered.
func (s *Simulator) metadataFails(w http.ResponseWriter, r *http.Request, instanceID string) bool {
	draw := func(kind fault.Kind) (fault.Fault, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.account.faults.Draw(kind, s.clock.Now(), actionMetadata, instanceID)
	}
	if f, strikes := draw(fault.Hang); strikes {
		// It does not matter whether the client is still connected: it gets no answer.
		_ = s.clock.Sleep(r.Context(), cmp.Or(f.Delay, time.Minute))
		panic(http.ErrAbortHandler)
	}
	if _, strikes := draw(fault.LoseRequest); strikes {
		panic(http.ErrAbortHandler)
	}
	if f, strikes := draw(fault.Error); strikes {
		http.Error(w, cmp.Or(f.Message, "Internal Server Error"), cmp.Or(f.Status, http.StatusInternalServerError))
		return true
	}
	if f, strikes := draw(fault.Delay); strikes {
		return s.clock.Sleep(r.Context(), f.Delay) != nil
	}
	return false
}

// metadataRequest returns the metadata service of a request, if it is for one: the instance is the user of the URL, or
// in its path.
func (s *Simulator) metadataRequest(r *http.Request) (http.Handler, bool) {
	if rest, ok := strings.CutPrefix(r.URL.Path, metadataPath); ok {
		id, _, _ := strings.Cut(rest, "/")
		return http.StripPrefix(metadataPath+id, s.metadata(id, 1)), true
	}
	user, password, ok := r.BasicAuth()
	if !ok || !strings.HasPrefix(user, "i-") {
		return nil, false
	}
	hops, err := strconv.Atoi(password)
	if err != nil {
		hops = 1
	}
	return s.metadata(user, hops), true
}
