// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// query calls EC2 with a form, as the AWS CLI and boto3 do for the published address-management samples of Multus, and
// prints the answer.
func query(ts *testscript.TestScript, neg bool, args []string) {
	form := url.Values{"Version": {"2016-11-15"}, "Action": {args[0]}}
	for _, argument := range args[1:] {
		key, value, _ := strings.Cut(argument, "=")
		form.Set(key, value)
	}
	answer, err := http.PostForm(on(ts).Endpoint, form)
	ts.Check(err)
	defer func() { ts.Check(answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	ts.Check(err)
	_, err = ts.Stdout().Write(text)
	ts.Check(err)
	if failed := answer.StatusCode != http.StatusOK; failed != neg {
		ts.Fatalf("%s: %s: %s", args[0], answer.Status, text)
	}
}
