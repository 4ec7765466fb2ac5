// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/fault"
)

func TestWrongReplies(t *testing.T) {
	begins := func(text string) func(string) bool {
		return func(body string) bool { return strings.HasPrefix(body, text) }
	}
	want := map[fault.Reply]func(body string) bool{
		fault.Empty:   func(body string) bool { return body == "" },
		fault.HTML:    begins("<!DOCTYPE html>"),
		fault.Foreign: func(body string) bool { return strings.Contains(body, "</DescribeAccountAttributesResponse>") },
		fault.Cut: func(body string) bool {
			return strings.Contains(body, "<CreateNetworkInterfaceResponse") && !strings.Contains(body, "</CreateNetworkInterfaceResponse>")
		},
		fault.Huge: func(body string) bool {
			return strings.Contains(body[:200], "<CreateNetworkInterfaceResponse") && len(body) == 50<<20
		},
	}
	for _, reply := range fault.Replies() {
		for _, skip := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, skip %t", reply, skip), func(t *testing.T) {
				sim, _, endpoint := serve(t, awssim.Options{})
				if _, err := sim.AddFault(fault.Fault{Kind: fault.WrongReply, Reply: reply, Skip: skip, Count: 1}); err != nil {
					t.Fatal(err)
				}
				before := len(sim.State().NetworkInterfaces)
				status, body, err := create(endpoint)
				if made := len(sim.State().NetworkInterfaces) > before; made == skip {
					t.Errorf("carried out: %t", made)
				}
				if reply == fault.Reset {
					if !errors.Is(err, syscall.ECONNRESET) {
						t.Errorf("%v, want a connection that is reset", err)
					}
				} else if err != nil || status != http.StatusOK || !want[reply](body) {
					t.Errorf("status %d, %d bytes that begin with %.100q: %v", status, len(body), body, err)
				}
				if calls := sim.Calls().Mutating; calls.Count != 1 || calls.Failed != 1 {
					t.Errorf("calls %+v", calls)
				}
			})
		}
	}
}

// create creates an interface without an SDK, which would hide replies that it cannot read.
func create(endpoint string) (status int, body string, err error) {
	form := url.Values{"Action": {"CreateNetworkInterface"}, "Version": {"2016-11-15"}, "SubnetId": {subnetA}}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.PostForm(endpoint, form)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}
