// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/multieni/multieni/awssim/apierror"
	"github.com/multieni/multieni/awssim/internal/query"
)

// The versions of the services' APIs, and the namespaces of their answers.
const (
	ec2Version           = "2016-11-15"
	ec2Namespace         = "http://ec2.amazonaws.com/doc/" + ec2Version + "/"
	autoScalingVersion   = "2011-01-01"
	autoScalingNamespace = "http://autoscaling.amazonaws.com/doc/" + autoScalingVersion + "/"
	stsVersion           = "2011-06-15"
	stsNamespace         = "https://sts.amazonaws.com/doc/" + stsVersion + "/"
)

// ec2Protocol is EC2's own form of the query protocol.
type ec2Protocol struct{ encoder query.Encoder }

func (p *ec2Protocol) read(r *http.Request) request {
	call := readForm(r)
	if call.problem == nil && call.action != "" && r.Form.Get("Version") != ec2Version {
		call.problem = refusal(http.StatusBadRequest, "NoSuchVersion",
			fmt.Sprintf("awssim models version %s of the EC2 API, not %q", ec2Version, r.Form.Get("Version")))
	}
	return call
}

func (p *ec2Protocol) writeOutput(w http.ResponseWriter, action, requestID string, output any) {
	var body bytes.Buffer
	fmt.Fprintf(&body, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+`<%sResponse xmlns="%s"><requestId>%s</requestId>`,
		action, ec2Namespace, requestID)
	p.encoder.Encode(&body, output)
	fmt.Fprintf(&body, "</%sResponse>", action)
	writeXML(w, http.StatusOK, requestID, body.Bytes())
}

func (p *ec2Protocol) writeError(w http.ResponseWriter, requestID string, err *apierror.Error) {
	var body bytes.Buffer
	body.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n<Response><Errors><Error><Code>")
	writeText(&body, err.Code)
	body.WriteString("</Code><Message>")
	writeText(&body, err.Message)
	fmt.Fprintf(&body, "</Message></Error></Errors><RequestID>%s</RequestID></Response>", requestID)
	writeXML(w, err.Status, requestID, body.Bytes())
}

// queryProtocol is the query protocol as services other than EC2 speak it.
type queryProtocol struct {
	encoder   query.Encoder
	namespace string
}

func (p *queryProtocol) read(r *http.Request) request { return readForm(r) }

func (p *queryProtocol) writeOutput(w http.ResponseWriter, action, requestID string, output any) {
	var body bytes.Buffer
	fmt.Fprintf(&body, `<%sResponse xmlns="%s"><%sResult>`, action, p.namespace, action)
	p.encoder.Encode(&body, output)
	fmt.Fprintf(&body, "</%sResult><ResponseMetadata><RequestId>%s</RequestId></ResponseMetadata></%sResponse>", action,
		requestID, action)
	writeXML(w, http.StatusOK, requestID, body.Bytes())
}

func (p *queryProtocol) writeError(w http.ResponseWriter, requestID string, err *apierror.Error) {
	fault := "Sender"
	if err.Status >= http.StatusInternalServerError {
		fault = "Receiver"
	}
	var body bytes.Buffer
	fmt.Fprintf(&body, `<ErrorResponse xmlns="%s"><Error><Type>%s</Type><Code>`, autoScalingNamespace, fault)
	writeText(&body, err.Code)
	body.WriteString("</Code><Message>")
	writeText(&body, err.Message)
	fmt.Fprintf(&body, "</Message></Error><RequestId>%s</RequestId></ErrorResponse>", requestID)
	writeXML(w, err.Status, requestID, body.Bytes())
}

// readForm reads a call that is a form.
func readForm(r *http.Request) request {
	if err := r.ParseForm(); err != nil {
		return request{problem: refusal(http.StatusBadRequest, "MalformedQueryString", err.Error())}
	}
	form := r.Form
	return request{
		action:     form.Get("Action"),
		decode:     func(input any) *apierror.Error { return decodeForm(form, input) },
		parameters: flat(form),
		resources:  values(form),
	}
}

func decodeForm(form url.Values, input any) *apierror.Error {
	err := query.Decode(form, input)
	if unknown, ok := errors.AsType[*query.UnknownParameterError](err); ok {
		return refusal(http.StatusBadRequest, "UnknownParameter", fmt.Sprintf(
			"The parameter %s is not recognized: AWS does not have it in %s, or awssim does not model it",
			unknown.Parameter, form.Get("Action")))
	}
	if err != nil {
		return refusal(http.StatusBadRequest, "InvalidParameterValue", err.Error())
	}
	return nil
}

func writeText(body *bytes.Buffer, text string) {
	// EscapeText fails only when its writer does, and a buffer does not.
	_ = xml.EscapeText(body, []byte(text))
}

func writeXML(w http.ResponseWriter, status int, requestID string, body []byte) {
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	// The SDKs read the ID of a successful call here, and not in the body.
	w.Header().Set("X-Amzn-Requestid", requestID)
	w.WriteHeader(status)
	// The client may have closed the connection.
	_, _ = w.Write(body)
}
