// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Transport answers HTTP requests in the process, without a network. A client that uses it can be tested inside a
// testing/synctest bubble, where a socket would stop the bubble's time.
func (s *Simulator) Transport() http.RoundTripper { return transport{s} }

type transport struct{ handler http.Handler }

// RoundTrip is part of http.RoundTripper. A lost request or reply is io.ErrUnexpectedEOF.
func (t transport) RoundTrip(request *http.Request) (response *http.Response, err error) {
	defer func() {
		if lost := recover(); lost != nil {
			if cause, ok := lost.(error); !ok || !errors.Is(cause, http.ErrAbortHandler) {
				panic(lost)
			}
			response, err = nil, fmt.Errorf("simulated loss: %w", io.ErrUnexpectedEOF)
		}
	}()
	received := request.Clone(request.Context())
	if received.Body == nil {
		received.Body = http.NoBody
	}
	defer received.Body.Close()
	answer := &memoryWriter{header: http.Header{}, status: http.StatusOK}
	t.handler.ServeHTTP(answer, received)
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", answer.status, http.StatusText(answer.status)),
		StatusCode: answer.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        answer.header,
		Body:          io.NopCloser(&answer.body),
		ContentLength: int64(answer.body.Len()),
		Request:       request,
	}, nil
}

// memoryWriter is an http.ResponseWriter that stores the response.
type memoryWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header is part of http.ResponseWriter.
func (w *memoryWriter) Header() http.Header { return w.header }

// WriteHeader is part of http.ResponseWriter.
func (w *memoryWriter) WriteHeader(status int) { w.status = status }

// Write is part of http.ResponseWriter.
func (w *memoryWriter) Write(p []byte) (int, error) { return w.body.Write(p) }
