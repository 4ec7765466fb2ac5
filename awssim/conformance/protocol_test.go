// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const apiVersion = "2016-11-15"

// answer is what a response consists of, whether it is a success or a failure. The names are those of the wire.
type answer struct {
	XMLName   xml.Name
	RequestID string `xml:"RequestID"` // of failures
	Request   string `xml:"requestId"` // of successes
	Errors    []struct {
		Code    string `xml:"Code"`
		Message string `xml:"Message"`
	} `xml:"Errors>Error"`
	Return string `xml:"return"`

	status      int
	contentType string
}

// post sends a form without the SDK, which would not send most of these.
func (ec *endpoint) post(t *testing.T, form url.Values) answer {
	t.Helper()
	body := form.Encode()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ec.url, strings.NewReader(body))
	ok(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	credentials, err := ec.credentials.Retrieve(t.Context())
	ok(t, err)
	sum := sha256.Sum256([]byte(body))
	ok(t, v4.NewSigner().SignHTTP(t.Context(), credentials, request, hex.EncodeToString(sum[:]), "ec2", ec.region, time.Now()))
	response, err := http.DefaultClient.Do(request)
	ok(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	ok(t, err)
	got := answer{status: response.StatusCode, contentType: response.Header.Get("Content-Type")}
	if err := xml.Unmarshal(text, &got); err != nil {
		t.Fatalf("not XML: %v\n%s", err, text)
	}
	return got
}

func TestProtocol(t *testing.T) {
	ec := open(t)
	eni := *ec.eni(t).NetworkInterfaceId
	verify(t, ec, []check{
		{name: "a success names its action, its namespace and its request", run: func(t *testing.T, ec *endpoint) {
			got := ec.post(t, url.Values{"Action": {"DescribeVpcs"}, "Version": {apiVersion}})
			want := xml.Name{Space: "http://ec2.amazonaws.com/doc/" + apiVersion + "/", Local: "DescribeVpcsResponse"}
			if got.status != http.StatusOK || got.XMLName != want || got.Request == "" || !strings.Contains(got.contentType, "xml") {
				t.Errorf("got %+v, want %v", got, want)
			}
		}},
		{name: "a change without a result returns true", run: func(t *testing.T, ec *endpoint) {
			got := ec.post(t, url.Values{
				"Action": {"ModifyNetworkInterfaceAttribute"}, "Version": {apiVersion},
				"NetworkInterfaceId": {eni}, "Description.Value": {"by hand"},
			})
			if got.status != http.StatusOK || got.Return != "true" {
				t.Errorf("got %+v", got)
			}
		}},
	})

	var rows []check
	for _, r := range []struct {
		name, code string
		strict     bool
		form       url.Values
	}{
		{"an unknown action", "InvalidAction", false, url.Values{"Action": {"AttachEverything"}}},
		{"an action that EC2 has and a simulator may lack is never a made-up success", "InvalidAction|MissingParameter", false,
			url.Values{"Action": {"CreateTransitGatewayConnectPeer"}}},
		{"no action", "MissingAction|InvalidAction|MissingParameter", true, url.Values{}},
		{"an unknown parameter", "UnknownParameter", true, url.Values{"Action": {"DescribeVpcs"}, "Colour": {"red"}}},
		{"an unknown member of a list", "UnknownParameter", true, url.Values{
			"Action": {"CreateNetworkInterface"}, "SubnetId": {*ec.subnet.SubnetId}, "PrivateIpAddresses.1.Colour": {"red"},
		}},
		{"CreateNetworkInterface without a subnet", "MissingParameter", true, url.Values{"Action": {"CreateNetworkInterface"}}},
		{"AttachNetworkInterface without an instance", "MissingParameter", true, url.Values{
			"Action": {"AttachNetworkInterface"}, "NetworkInterfaceId": {eni}, "DeviceIndex": {"1"},
		}},
		{"AttachNetworkInterface without an index", "MissingParameter", true, url.Values{
			"Action": {"AttachNetworkInterface"}, "NetworkInterfaceId": {eni}, "InstanceId": {noInstance},
		}},
		{"DetachNetworkInterface without an attachment", "MissingParameter", true, url.Values{"Action": {"DetachNetworkInterface"}}},
		{"DeleteNetworkInterface without an interface", "MissingParameter", true, url.Values{"Action": {"DeleteNetworkInterface"}}},
		{"TerminateInstances without instances", "MissingParameter", true, url.Values{"Action": {"TerminateInstances"}}},
		{"RunInstances without counts", "MissingParameter", true, url.Values{"Action": {"RunInstances"}, "ImageId": {ec.image}}},
		{"CreateTags without tags", "MissingParameter", true, url.Values{"Action": {"CreateTags"}, "ResourceId.1": {eni}}},
		{"a number that is none", "InvalidParameterValue", true, url.Values{
			"Action": {"AttachNetworkInterface"}, "NetworkInterfaceId": {eni}, "InstanceId": {noInstance}, "DeviceIndex": {"first"},
		}},
		{"a truth value that is none", "InvalidParameterValue", true, url.Values{"Action": {"DescribeVpcs"}, "DryRun": {"perhaps"}}},
		{"a version that EC2 never had", "InvalidParameterValue|NoSuchVersion|InvalidAction", true,
			url.Values{"Action": {"DescribeVpcs"}, "Version": {"1999-12-31"}}},
	} {
		rows = append(rows, check{name: r.name, strict: r.strict, run: func(t *testing.T, ec *endpoint) {
			if r.form.Get("Version") == "" {
				r.form.Set("Version", apiVersion)
			}
			got := ec.post(t, r.form)
			if got.status != http.StatusBadRequest || got.XMLName.Local != "Response" || got.RequestID == "" || len(got.Errors) != 1 {
				t.Fatalf("got %+v, want a failure of status 400", got)
			}
			if code := got.Errors[0].Code; !strings.Contains("|"+r.code+"|", "|"+code+"|") || got.Errors[0].Message == "" {
				t.Errorf("got %s (%q), want %s and a message", code, got.Errors[0].Message, r.code)
			}
		}})
	}
	verify(t, ec, rows)
}
