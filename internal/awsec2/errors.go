// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"errors"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/multieni/multieni/internal/core/eni"
)

// codeClasses says what EC2's error codes mean (EC2 API reference, "Error codes"; testdata/error-codes.txt goes through that list).
// Codes that are not listed are judged by whether the SDK takes them for throttling, then by their ending, then by the HTTP
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
	"InsufficientCidrBlocks":            eni.NoAddresses,

	"InvalidIPAddress.InUse":   eni.AddressTaken,
	"Resource.AlreadyAssigned": eni.AddressTaken,

	// EC2 says so of a pending instance. The other meaning in its list is of calls that name no interface where there are
	// several, and all of ours name one.
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

	// Not a limit of the account, in spite of its ending: the request holds too many filter values.
	"FilterLimitExceeded": eni.Invalid,
}

// codeSuffixClasses says what codes mean by how they end.
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

// texts tells the meanings of one code apart, by a part of the message that real answers were seen to have.
var texts = []struct {
	code, text string
	class      eni.Class
}{
	{"InvalidParameterValue", "already has an interface attached at device index", eni.SlotTaken},
	{"InvalidParameterValue", "currently in use", eni.Busy},
	{"InvalidParameterValue", "] in use", eni.Busy},
	{"InvalidParameterValue", "sufficient free", eni.NoAddresses},
	{"InvalidParameterCombination", "not in the same availability zone", eni.WrongZone},
}

// toAPIError turns an error of the SDK into an [eni.Fault], and keeps nil.
func toAPIError(err error) error {
	if err == nil {
		return nil
	}
	return asAPIError(err)
}

// ignoreNotFound is fault for a call that wants an attachment to be absent: one that EC2 does not know is as wanted.
func ignoreNotFound(err error) error {
	if err := toAPIError(err); eni.ErrorClass(err) != eni.NotFound {
		return err
	}
	return nil
}

// noCode is the code that the SDK gives an error which comes without one. EC2's errors have codes: it is the page of a proxy or
// of another server, and as good as no answer.
const noCode = "UnknownError"

func asAPIError(err error) *eni.APIError {
	if known := (*eni.APIError)(nil); errors.As(err, &known) {
		return known
	}
	f := &eni.APIError{Err: err, Class: eni.Transient}
	if operation := (*smithy.OperationError)(nil); errors.As(err, &operation) {
		f.Operation = operation.Operation()
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

// Classify returns what an error code of EC2 means. The message counts only for the codes that EC2 uses for several
// things; the HTTP status only for codes that are not listed, 0 standing for no answer.
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

// statusOf returns the HTTP status of the answer, 0 when there was none.
func statusOf(err error) int {
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	return 0
}
