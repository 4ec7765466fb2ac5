// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	// answerLimit bounds the size of an answer. The largest real one is DescribeInstances of a full [describeBatchSize]
	// whose instances have 15 interfaces with 50 addresses each, about 37 MB.
	answerLimit = 40 << 20
	// refusalLimit bounds the size of an error, which the SDK keeps in memory as a whole.
	refusalLimit = 1 << 20
	// headSize is the part of an answer that is inspected before the SDK reads it. Every answer to a change is smaller.
	headSize = 8 << 10
)

// lostAnswerError is a response that is not the service's answer to the request: the service may or may not have
// executed the request, as after a broken connection.
type lostAnswerError struct{ reason string }

func (e *lostAnswerError) Error() string {
	return e.reason + ": a proxy or another server may have answered; check the endpoint and the network path to it if " +
		"this persists"
}

// RetryableError lets the SDK retry as after a broken connection, for calls that it retries at all.
func (e *lostAnswerError) RetryableError() bool { return true }

func lost(format string, args ...any) error { return &lostAnswerError{fmt.Sprintf(format, args...)} }

// essential names the member of the SDK's output that an answer must have, for actions whose output has further
// members.
var essential = map[string]string{
	"CreateNetworkInterface": "NetworkInterface",
	"AttachNetworkInterface": "AttachmentId",
}

// mayBeEmpty are the actions whose successful answer may lack every member of the output.
var mayBeEmpty = map[string]bool{"ReceiveMessage": true}

// checkAnswers makes the SDK's clients refuse a successful response that is not the service's answer to the request.
// The SDK accepts an empty body and any XML document. It is idempotent.
func checkAnswers(stack *middleware.Stack) error {
	if _, added := stack.Deserialize.Get(bodyCheckID); added {
		return nil
	}
	if err := stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc(bodyCheckID, checkBody),
		middleware.After); err != nil {
		return err
	}
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("multieni:CheckResult", checkResult),
		middleware.Before)
}

const bodyCheckID = "multieni:CheckBody"

// checkBody inspects the beginning of an answer before the SDK reads it, and bounds its size.
func checkBody(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
	out middleware.DeserializeOutput, metadata middleware.Metadata, err error,
) {
	out, metadata, err = next.HandleDeserialize(ctx, in)
	request, isHTTP := in.Request.(*smithyhttp.Request)
	response, answered := out.RawResponse.(*smithyhttp.Response)
	if err != nil || !isHTTP || !answered {
		return out, metadata, err
	}
	inspect := inspectorOf(request.Header.Get("Content-Type"))
	if inspect == nil {
		return out, metadata, nil
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		response.Body = bounded(response.Body, refusalLimit)
		return out, metadata, nil
	}
	body := bounded(response.Body, answerLimit)
	head := make([]byte, headSize)
	n, err := io.ReadFull(body, head)
	whole := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err == nil || whole {
		err = inspect(awsmiddleware.GetOperationName(ctx), response.Header, head[:n], whole)
	}
	if err != nil {
		// Without this the SDK would read the rest of the refused body.
		_ = response.Body.Close()
		response.Body = http.NoBody
		return out, metadata, err
	}
	response.Body = readCloser{io.MultiReader(bytes.NewReader(head[:n]), body), response.Body}
	return out, metadata, nil
}

// checkResult refuses an answer without output for an action that has output.
func checkResult(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
	out middleware.DeserializeOutput, metadata middleware.Metadata, err error,
) {
	out, metadata, err = next.HandleDeserialize(ctx, in)
	request, isHTTP := in.Request.(*smithyhttp.Request)
	if err != nil || !isHTTP || inspectorOf(request.Header.Get("Content-Type")) == nil {
		return out, metadata, err
	}
	if action := awsmiddleware.GetOperationName(ctx); !isComplete(action, out.Result) {
		err = lost("the answer to %s lacks its element", action)
	}
	return out, metadata, err
}

// isComplete reports whether an output has its essential member; for an action without one, whether any member is set.
// An empty list is set, and an output without members is complete.
func isComplete(action string, output any) bool {
	value := reflect.Indirect(reflect.ValueOf(output))
	if mayBeEmpty[action] || value.Kind() != reflect.Struct {
		return true
	}
	if name, named := essential[action]; named {
		return !value.FieldByName(name).IsZero()
	}
	members := 0
	for field, member := range value.Fields() {
		if !field.IsExported() || field.Name == "ResultMetadata" || field.Name == "NextToken" {
			continue
		}
		if members++; !member.IsZero() {
			return true
		}
	}
	return members == 0
}

// inspector checks an answer by its header and its beginning, which may be the whole answer.
type inspector func(action string, header http.Header, head []byte, whole bool) error

// inspectorOf returns the inspector of a protocol by the content type of the request; nil for a protocol that is not
// checked, for example that of instance metadata.
func inspectorOf(contentType string) inspector {
	switch {
	case strings.HasPrefix(contentType, "application/x-www-form-urlencoded"):
		return inspectXML
	case strings.HasPrefix(contentType, "application/x-amz-json"):
		return inspectJSON
	}
	return nil
}

// inspectXML is for EC2's protocol and for AWS Query: the root element has the name of the action, and a request ID is
// in the header or the document. An answer that is longer than its head need not have the ID, because the ID can come
// last.
func inspectXML(action string, header http.Header, head []byte, whole bool) error {
	decoder := xml.NewDecoder(bytes.NewReader(head))
	root, err := rootElement(decoder)
	if err != nil || root != action+"Response" {
		return lost("the answer is not a <%sResponse>", action)
	}
	if !whole {
		return nil
	}
	identified := requestID(header) != ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return lost("the answer to %s is incomplete or not XML", action)
		}
		if start, is := token.(xml.StartElement); is && strings.EqualFold(start.Name.Local, "requestId") {
			identified = true
		}
	}
	if !identified {
		return lost("the answer to %s has no request ID", action)
	}
	return nil
}

func rootElement(decoder *xml.Decoder) (string, error) {
	for {
		token, err := decoder.Token()
		if err != nil {
			return "", err
		}
		if start, is := token.(xml.StartElement); is {
			return start.Name.Local, nil
		}
	}
}

// inspectJSON is for the AWS JSON protocols. An action without output may answer with an empty body.
func inspectJSON(action string, header http.Header, head []byte, _ bool) error {
	if requestID(header) == "" {
		return lost("the answer to %s has no request ID", action)
	}
	if text := bytes.TrimLeft(head, " \t\r\n"); len(text) > 0 && text[0] != '{' {
		return lost("the answer to %s is not a JSON object", action)
	}
	return nil
}

func requestID(header http.Header) string { return header.Get("X-Amzn-Requestid") }

type readCloser struct {
	io.Reader
	io.Closer
}

// bounded reads at most limit bytes, and fails if there are more.
func bounded(body io.ReadCloser, limit int64) io.ReadCloser {
	return readCloser{&boundedReader{body: io.LimitedReader{R: body, N: limit}, limit: limit}, body}
}

type boundedReader struct {
	body  io.LimitedReader
	limit int64
}

// Read implements io.Reader.
func (r *boundedReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if errors.Is(err, io.EOF) && r.body.N <= 0 {
		// At the limit, one byte more distinguishes an answer of exactly that length from a longer one.
		if more, _ := io.ReadFull(r.body.R, make([]byte, 1)); more > 0 {
			return n, lost("the answer is longer than %d MiB", r.limit>>20)
		}
	}
	return n, err
}
