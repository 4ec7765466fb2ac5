// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/multieni/multieni/internal/aws/awsec2"
)

// request is one request to the fake.
type request struct {
	action string
	form   url.Values
}

// filter returns the values of a filter.
func (r request) filter(name string) []string {
	for n := 1; r.form.Has(fmt.Sprintf("Filter.%d.Name", n)); n++ {
		if r.form.Get(fmt.Sprintf("Filter.%d.Name", n)) != name {
			continue
		}
		var values []string
		for m := 1; r.form.Has(fmt.Sprintf("Filter.%d.Value.%d", n, m)); m++ {
			values = append(values, r.form.Get(fmt.Sprintf("Filter.%d.Value.%d", n, m)))
		}
		return values
	}
	return nil
}

// filterValues counts the values of all filters; EC2 limits that number.
func (r request) filterValues() int {
	count := 0
	for key := range r.form {
		if strings.HasPrefix(key, "Filter.") && strings.Contains(key, ".Value.") {
			count++
		}
	}
	return count
}

// reply is an answer of the fake: a body for success, a code for an error, or a fault of the connection.
type reply struct {
	status        int
	code, message string
	body          string
	fault         error
	// verbatim is the complete answer; it may be nil.
	verbatim io.Reader
}

// least is the minimum content of EC2's answer to an action.
var least = map[string]string{
	"DescribeInstances":         "<reservationSet/>",
	"DescribeInstanceTypes":     "<instanceTypeSet/>",
	"DescribeNetworkInterfaces": "<networkInterfaceSet/>",
	"DescribeSecurityGroups":    "<securityGroupInfo/>",
	"DescribeSubnets":           "<subnetSet/>",
	"GetSubnetCidrReservations": "<subnetIpv4CidrReservationSet/><subnetIpv6CidrReservationSet/>",
	"CreateNetworkInterface":    "<networkInterface/>",

	"CreateSubnetCidrReservation": "<subnetCidrReservation/>",
	"DeleteSubnetCidrReservation": "<deletedSubnetCidrReservation/>",

	"AttachNetworkInterface":   "<attachmentId>eni-attach-1</attachmentId>",
	"AssignPrivateIpAddresses": "<networkInterfaceId>eni-1</networkInterfaceId>",
	"AssignIpv6Addresses":      "<networkInterfaceId>eni-1</networkInterfaceId>",
	"UnassignIpv6Addresses":    "<networkInterfaceId>eni-1</networkInterfaceId>",
}

// fake answers requests in memory, so that tests can run on a virtual clock. It knows only EC2's wire format.
type fake struct {
	answer func(request) reply

	mu       sync.Mutex
	requests []request
}

func (f *fake) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	sent := request{action: form.Get("Action"), form: form}
	f.mu.Lock()
	f.requests = append(f.requests, sent)
	f.mu.Unlock()
	// As a transport does, give up when the context has ended.
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	answer := f.answer(sent)
	if answer.fault != nil {
		return nil, answer.fault
	}
	return answer.response(sent, r), nil
}

func (a reply) response(sent request, r *http.Request) *http.Response {
	if a.status == 0 {
		a.status = http.StatusOK
		if a.code != "" {
			a.status = http.StatusBadRequest
		}
	}
	text := fmt.Sprintf("<%[1]sResponse><requestId>r-1</requestId>%[2]s</%[1]sResponse>", sent.action, cmp.Or(a.body, least[sent.action]))
	if a.code != "" {
		text = fmt.Sprintf("<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>r-1</RequestID></Response>", a.code, a.message)
	}
	var body io.Reader = strings.NewReader(text)
	if a.verbatim != nil {
		body = a.verbatim
	}
	return &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(body), Request: r}
}

// calls returns the requests of an action.
func (f *fake) calls(action string) []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(func(yield func(request) bool) {
		for _, r := range f.requests {
			if r.action == action && !yield(r) {
				return
			}
		}
	})
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

// client returns a client of the fake in cluster "c1".
func (f *fake) client(t *testing.T, options awsec2.Options) *awsec2.Client {
	t.Helper()
	options.Cluster = "c1"
	return awsec2.New(aws.Config{
		Region:      "us-west-2",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:  f,
	}, options)
}

// always returns a fake that gives every request the same answer.
func always(r reply) *fake { return &fake{answer: func(request) reply { return r }} }

func items(list []string) string { return strings.Join(list, "") }

func interfaceItem(id, instanceID string, tags map[string]string) string {
	attachment := ""
	if instanceID != "" {
		attachment = "<attachment><attachmentId>eni-attach-" + id + "</attachmentId><instanceId>" + instanceID +
			"</instanceId><deviceIndex>1</deviceIndex><status>attached</status></attachment>"
	}
	var set strings.Builder
	for key, value := range tags {
		fmt.Fprintf(&set, "<item><key>%s</key><value>%s</value></item>", key, value)
	}
	return fmt.Sprintf("<item><networkInterfaceId>%s</networkInterfaceId>%s<tagSet>%s</tagSet></item>", id, attachment, set.String())
}

func instanceItem(id string) string {
	return "<item><instancesSet><item><instanceId>" + id +
		"</instanceId><instanceState><name>running</name></instanceState></item></instancesSet></item>"
}
