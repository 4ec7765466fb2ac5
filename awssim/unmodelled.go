// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/multieni/multieni/awssim/apierror"
	"github.com/multieni/multieni/awssim/internal/query"
)

// unmodelled is a service that awssim does not have. It refuses every call, in the form that the clients of the service
// read.
type unmodelled struct {
	protocol

	service string
}

// unmodelledService returns the service that a call is signed for.
func unmodelledService(r *http.Request) service {
	name := signedService(r)
	return service{name: name, protocol: unmodelled{protocolOf(name, r), name}}
}

// protocolOf returns the protocol of a call: JSON with its target in a header, a form, or REST.
func protocolOf(service string, r *http.Request) protocol {
	switch {
	case r.Header.Get(headerTarget) != "":
		return jsonProtocol{version: "1.1"}
	case r.URL.Path == "/" && r.FormValue("Action") != "":
		return &queryProtocol{encoder: query.Encoder{Members: true}}
	case slices.Contains([]string{"s3", "route53", "cloudfront"}, service):
		return restXML{}
	default:
		return restJSON{jsonProtocol{version: "1.1"}}
	}
}

func (u unmodelled) read(r *http.Request) request {
	action := cmp.Or(r.Header.Get(headerTarget), r.FormValue("Action"), r.Method+" "+r.URL.Path)
	return request{action: action, problem: refusal(http.StatusBadRequest, "InvalidAction", fmt.Sprintf(
		"awssim does not model %s of the service %s; awssim/README.md lists the services", action, u.service))}
}

// restJSON is the form of errors of services such as Lambda and EKS: the code is in a header.
type restJSON struct{ jsonProtocol }

func (p restJSON) writeError(w http.ResponseWriter, requestID string, err *apierror.Error) {
	w.Header().Set("X-Amzn-Errortype", err.Code)
	p.jsonProtocol.writeError(w, requestID, err)
}

// restXML is the form of errors of S3.
type restXML struct{ protocol }

func (restXML) writeError(w http.ResponseWriter, requestID string, err *apierror.Error) {
	var body bytes.Buffer
	body.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n<Error><Code>")
	writeText(&body, err.Code)
	body.WriteString("</Code><Message>")
	writeText(&body, err.Message)
	fmt.Fprintf(&body, "</Message><RequestId>%s</RequestId></Error>", requestID)
	writeXML(w, err.Status, requestID, body.Bytes())
}
