// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"bytes"
	"io"
	"maps"
	"net"
	"net/http"

	"github.com/multieni/multieni/awssim/fault"
)

// hugeReply is the size of a [fault.Huge] reply.
const hugeReply = 50 << 20

// page is the reply of a proxy that asks users to sign in.
const page = "<!DOCTYPE html><html><head><title>Sign in</title></head><body><p>Sign in to go on.</p></body></html>\n"

// writeWrong writes another reply instead of the answer.
func (s service) writeWrong(w http.ResponseWriter, action, requestID string, a answer) {
	// The client may have closed the connection.
	switch a.wrong {
	case fault.Empty:
		w.WriteHeader(http.StatusOK)
	case fault.HTML:
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, page)
	case fault.Foreign:
		s.protocol.writeOutput(w, "DescribeAccountAttributes", requestID, struct{}{})
	case fault.Cut:
		_, _ = w.Write(s.half(w, action, requestID, a))
	case fault.Huge:
		begin := s.half(w, action, requestID, a)
		_, _ = w.Write(begin)
		_, _ = w.Write(bytes.Repeat([]byte(" "), hugeReply-len(begin)))
	case fault.Reset:
		reset(w)
	}
}

// half returns the first half of the answer, and sets the header of the whole answer.
func (s service) half(w http.ResponseWriter, action, requestID string, a answer) []byte {
	whole := &memoryWriter{header: http.Header{}}
	if a.err != nil {
		s.protocol.writeError(whole, requestID, a.err)
	} else {
		s.protocol.writeOutput(whole, action, requestID, a.output)
	}
	maps.Copy(w.Header(), whole.header)
	return whole.body.Bytes()[:whole.body.Len()/2]
}

// reset ends a TCP connection by a reset. In the process, where there is none, it is a lost reply.
func reset(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // makes Close send RST
	}
	_ = connection.Close()
}
