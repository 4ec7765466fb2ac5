// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/multieni/multieni/awssim/apierror"
)

// headerTarget names the service and the action of a call in JSON.
const headerTarget = "X-Amz-Target"

// jsonProtocol is AWS JSON 1.0 and 1.1.
type jsonProtocol struct {
	version string
	// namespace is the prefix of error codes.
	namespace string
	// queryCode returns the code of an error in the service's query protocol, which clients of SQS still show; nil for
	// none.
	queryCode func(code string) string
}

func (p jsonProtocol) read(r *http.Request) request {
	_, action, _ := strings.Cut(r.Header.Get(headerTarget), ".")
	call := request{action: action}
	body, err := io.ReadAll(r.Body)
	var members map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(body, &members)
	}
	if err != nil {
		call.problem = refusal(http.StatusBadRequest, "SerializationException", err.Error())
		return call
	}
	call.decode = func(input any) *apierror.Error { return decodeJSON(body, input) }
	call.parameters = map[string]string{}
	for name, value := range members {
		text := plainText(value)
		call.parameters[name] = text
		// A queue is named by a URL, whose last element is the queue's name.
		call.resources = append(call.resources, text, path.Base(text))
	}
	return call
}

// plainText is a string as it is, and anything else as JSON.
func plainText(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

func decodeJSON(body []byte, input any) *apierror.Error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(input); err != nil {
		return refusal(http.StatusBadRequest,
			"SerializationException", fmt.Sprintf("%v: AWS does not have that, or awssim does not model it", err))
	}
	return nil
}

func (p jsonProtocol) writeOutput(w http.ResponseWriter, _, requestID string, output any) {
	p.write(w, http.StatusOK, requestID, output)
}

func (p jsonProtocol) writeError(w http.ResponseWriter, requestID string, err *apierror.Error) {
	if p.queryCode != nil {
		w.Header().Set("X-Amzn-Query-Error", p.queryCode(err.Code)+";Sender")
	}
	p.write(w, err.Status, requestID, map[string]string{"__type": p.namespace + err.Code, "message": err.Message})
}

func (p jsonProtocol) write(w http.ResponseWriter, status int, requestID string, body any) {
	w.Header().Set("Content-Type", "application/x-amz-json-"+p.version)
	w.Header().Set("X-Amzn-Requestid", requestID)
	w.WriteHeader(status)
	// The client may have closed the connection.
	_ = json.NewEncoder(w).Encode(body)
}
