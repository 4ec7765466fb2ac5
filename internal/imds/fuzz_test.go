// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package imds_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/imds"
)

// documents answers requests to instance metadata with texts, by the last part of the path.
type documents map[string]string

func (d documents) Do(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		return answer(http.StatusOK, "token"), nil
	}
	path := strings.TrimSuffix(r.URL.Path, "/")
	text, found := d[path[strings.LastIndex(path, "/")+1:]]
	if !found {
		return answer(http.StatusNotFound, ""), nil
	}
	return answer(http.StatusOK, text), nil
}

func answer(status int, text string) *http.Response {
	return &http.Response{
		StatusCode: status, Body: io.NopCloser(strings.NewReader(text)),
		Header: http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"21600"}},
	}
}

// A program between an agent and instance metadata can answer with any bytes. Addresses and prefixes are valid, and a slot has
// no negative index and is never the primary interface's for another MAC address.
func FuzzRead(f *testing.F) {
	const primary = "02:00:00:00:00:01"
	f.Add(primary, primary+"/\n02:00:00:00:00:02/\n", "1", "0", "10.0.0.1\n10.0.0.2", "2001:db8::1", "10.0.0.16/28")
	f.Add(primary, primary, "0", "", "10.0.0.1", "", "")
	f.Add(primary, "02:00:00:00:00:02", "0", "x", "10.0.0", "::ffff:10.0.0.1%eth0", "10.0.0.16/33")
	f.Add("", "../..", "-1", "-1", "", "", "")
	f.Add(primary, "02:00:00:00:00:02", "99999999999999999999", "99999999999999999999", "", "", "")
	f.Fuzz(func(t *testing.T, mac, macs, device, card, ipv4, ipv6, prefix string) {
		client := imds.Of(sdk.New(sdk.Options{Endpoint: "http://metadata.invalid", HTTPClient: documents{
			"instance-id": "i-0123456789abcdef0", "mac": mac, "macs": macs, "interface-id": "eni-1", "subnet-id": "subnet-1",
			"device-number": device, "network-card": card, "local-ipv4s": ipv4, "ipv6s": ipv6, "ipv4-prefix": prefix,
		}}))
		m, err := client.Read(t.Context())
		if err != nil {
			return
		}
		if m.InstanceID != "i-0123456789abcdef0" || len(m.Interfaces) > len(strings.Fields(macs)) {
			t.Errorf("%+v from %q", m, macs)
		}
		for _, i := range m.Interfaces {
			if err := checkInterface(i, m.PrimaryMAC); err != nil {
				t.Errorf("%+v: %v", i, err)
			}
		}
	})
}

func checkInterface(i eni.Interface, primary string) error {
	for _, p := range i.IPv4Prefixes {
		if !p.IsValid() {
			return errors.New("an invalid prefix")
		}
	}
	for _, a := range append(i.SecondaryIPv4, i.IPv6...) {
		if !a.IsValid() {
			return errors.New("an invalid address")
		}
	}
	switch a := i.Attachment; {
	case a == nil:
	case a.Slot.Device < 0 || a.Slot.Card < 0 || a.Slot.Device > 1<<31-1 || a.Slot.Card > 1<<31-1:
		return errors.New("a slot out of bounds")
	case a.Slot.Device == 0 && i.MAC != primary:
		return errors.New("the primary slot")
	}
	return nil
}
