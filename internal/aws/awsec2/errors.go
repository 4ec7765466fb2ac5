// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/multieni/multieni/internal/core/eni"
)

// codeClasses has the classes of EC2's error codes (EC2 API reference, "Error codes"; testdata/error-codes.txt has the
// whole list). Other codes are classified by the SDK's list of throttling codes, then by their ending, then by the HTTP
// status.
var codeClasses = map[string]eni.Class{
	"InternalError":                     eni.Transient,
	"InternalFailure":                   eni.Transient,
	"ServiceUnavailable":                eni.Transient,
	"Unavailable":                       eni.Transient,
	"ConcurrentTagAccess":               eni.Transient,
	"InvalidPaginationToken":            eni.Transient,
	"InvalidNextToken":                  eni.Transient,
	"RequestExpired":                    eni.Transient,
	"RetryableError":                    eni.Transient,
	"InvalidSecurity.RequestHasExpired": eni.Transient,

	"InvalidID": eni.NotFound,

	"InvalidNetworkInterface.InUse":        eni.Busy,
	"Resource.AlreadyAssociated":           eni.Busy,
	"DependencyViolation":                  eni.Busy,
	"InterfaceInUseByTrafficMirrorSession": eni.Busy,
	"InterfaceInUseByTrafficMirrorTarget":  eni.Busy,

	"InsufficientFreeAddressesInSubnet": eni.NoAddresses,
	"InsufficientCidrBlocks":            eni.NoPrefixes,

	"InvalidIPAddress.InUse":   eni.AddressTaken,
	"Resource.AlreadyAssigned": eni.AddressTaken,

	// EC2 returns this for a pending instance. Its documented other meaning is for calls without an interface, and all of
	// ours name one.
	"InvalidInstanceID":      eni.WrongState,
	"InvalidStateTransition": eni.WrongState,

	"UnauthorizedOperation":       eni.Unauthorized,
	"AuthFailure":                 eni.Unauthorized,
	"AccessDenied":                eni.Unauthorized,
	"AccessDeniedException":       eni.Unauthorized,
	"OptInRequired":               eni.Unauthorized,
	"PendingVerification":         eni.Unauthorized,
	"IncompleteSignature":         eni.Unauthorized,
	"Blocked":                     eni.Unauthorized,
	"InvalidClientTokenId":        eni.Unauthorized,
	"UnrecognizedClientException": eni.Unauthorized,
	"SignatureDoesNotMatch":       eni.Unauthorized,
	"ExpiredToken":                eni.Unauthorized,
	"ExpiredTokenException":       eni.Unauthorized,
	"InvalidIdentityToken":        eni.Unauthorized,

	"IdempotentParameterMismatch":  eni.IdempotencyMismatch,
	"IdempotentInstanceTerminated": eni.IdempotencyMismatch,

	// Not a limit of the account, despite its ending: the request has too many filter values.
	"FilterLimitExceeded": eni.Invalid,
}

// codeSuffixClasses classifies codes by their ending.
var codeSuffixClasses = []struct {
	ending string
	class  eni.Class
}{
	{"NotFound", eni.NotFound},
	{"NotFoundException", eni.NotFound},
	{"State", eni.WrongState},
	{"LimitExceeded", eni.LimitExceeded},
	{"LimitExceededException", eni.LimitExceeded},
}

// texts distinguishes the meanings of one code by a part of the message in real answers.
var texts = []struct {
	code, text string
	class      eni.Class
}{
	{"InvalidParameterValue", "already has an interface attached at device index", eni.SlotTaken},
	{"InvalidParameterValue", "currently in use", eni.Busy},
	{"InvalidParameterValue", "] in use", eni.Busy},
	{"InvalidParameterValue", "sufficient free", eni.NoAddresses},
	{"InvalidParameterValue", "overlap with existing reserved", eni.AddressTaken},
	{"InvalidParameterCombination", "not in the same availability zone", eni.WrongZone},
}

// toAPIError converts an error of the SDK to an [eni.APIError]; nil stays nil.
func toAPIError(err error) error {
	if err == nil {
		return nil
	}
	return asAPIError(err)
}

// ignoreNotFound converts the error of a detach or delete call: an unknown attachment or interface is no error.
func ignoreNotFound(err error) error {
	if err := toAPIError(err); eni.ErrorClass(err) != eni.NotFound {
		return err
	}
	return nil
}

// noCode is the SDK's code for an error without one. EC2's errors have codes, so this is a page of a proxy or of
// another server, and counts as no answer.
const noCode = "UnknownError"

func asAPIError(err error) *eni.APIError {
	if known := (*eni.APIError)(nil); errors.As(err, &known) {
		return known
	}
	f := &eni.APIError{Err: err, Class: eni.Transient, Message: withoutIDs(err.Error())}
	if operation := (*smithy.OperationError)(nil); errors.As(err, &operation) {
		f.Operation, f.Message = operation.Operation(), withoutIDs(operation.Err.Error())
	}
	if missing := (*credentialsError)(nil); errors.As(err, &missing) {
		// The chain can contain the answer of another service, such as AWS STS, with an error code of that service.
		f.NoCredentials, f.Message = true, withoutIDs(missing.err.Error())
		return f
	}
	if answer := smithy.APIError(nil); errors.As(err, &answer) && answer.ErrorCode() != noCode {
		f.Code, f.Message = answer.ErrorCode(), answer.ErrorMessage()
		f.Class = Classify(f.Code, f.Message, statusOf(err))
	}
	if wrong := (*smithy.InvalidParamsError)(nil); errors.As(err, &wrong) {
		f.Class = eni.Invalid
	}
	return f
}

// changing are the parts of the SDK's error texts that differ from attempt to attempt: the IDs of requests, and the
// addresses of connections. The text has the URL as well.
var changing = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`(Request|Host)ID: [^,]*, `), ""},
	{regexp.MustCompile(`\b(tcp|udp) (\S+:\d+)(->\S+:\d+)?:`), "$1:"},
	{regexp.MustCompile(`\d{4}-\d{2}-\d{2}T[0-9:.]+Z`), "TIME"},
}

// withoutIDs returns a text that is the same for every attempt with the same cause.
func withoutIDs(text string) string {
	for _, c := range changing {
		text = c.pattern.ReplaceAllString(text, c.replacement)
	}
	return text
}

// credentialsError is the failure of the credential chain.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }

// credentials marks the errors of a credential chain: no request of the call was sent.
type credentials struct{ aws.CredentialsProvider }

// Retrieve implements [aws.CredentialsProvider].
func (c credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	value, err := c.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		err = &credentialsError{err}
	}
	return value, err
}

// Classify returns the class of EC2's error code. The message matters only for codes with several meanings. The HTTP
// status, 0 for no answer, matters only for codes that are not listed.
func Classify(code, message string, status int) eni.Class {
	for _, t := range texts {
		if code == t.code && strings.Contains(message, t.text) {
			return t.class
		}
	}
	if class, listed := codeClasses[code]; listed {
		return class
	}
	if _, throttled := retry.DefaultThrottleErrorCodes[code]; throttled {
		return eni.Throttled
	}
	for _, e := range codeSuffixClasses {
		if strings.HasSuffix(code, e.ending) {
			return e.class
		}
	}
	switch {
	case status == 0, status >= http.StatusInternalServerError:
		return eni.Transient
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return eni.Unauthorized
	default:
		return eni.Invalid
	}
}

// statusOf returns the HTTP status of the answer, 0 without one.
func statusOf(err error) int {
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	return 0
}
