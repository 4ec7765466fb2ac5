// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package imds_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/multieni/multieni/internal/aws/imds"
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

// A program between an agent and instance metadata can answer with any bytes. An ID and a MAC address are compared with
// those of the controller only.
func FuzzRead(f *testing.F) {
	const primary = "02:00:00:00:00:01"
	f.Add(primary, primary+"/\n02:00:00:00:00:02/\n", "eni-1")
	f.Add(primary, primary, "")
	f.Add("", "../..", "eni-1\neni-2")
	f.Fuzz(func(t *testing.T, mac, macs, id string) {
		client := imds.Of(sdk.New(sdk.Options{Endpoint: "http://metadata.invalid", HTTPClient: documents{
			"instance-id": "i-0123456789abcdef0", "mac": mac, "macs": macs, "interface-id": id,
		}}))
		m, err := client.Read(t.Context())
		if err != nil {
			return
		}
		if m.InstanceID != "i-0123456789abcdef0" || len(m.Interfaces) > len(strings.Fields(macs)) {
			t.Errorf("%+v from %q", m, macs)
		}
	})
}
