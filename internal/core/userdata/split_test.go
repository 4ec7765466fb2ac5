// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"net/textproto"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/userdata"
)

const (
	aScript     = "#!/bin/bash\necho one"
	aNodeConfig = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      maxPods: 58"
)

// zipped returns a text as Terraform's cloudinit_config writes it by default.
func zipped(t *testing.T, text string) string {
	t.Helper()
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.String()
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// TestSplitReadsWhatProgramsWrite has user data as documents and programs write it.
func TestSplitReadsWhatProgramsWrite(t *testing.T) {
	const terraform = "Content-Type: multipart/mixed; boundary=\"MIMEBOUNDARY\"\nMIME-Version: 1.0\r\n\r\n" +
		"--MIMEBOUNDARY\r\nContent-Disposition: attachment; filename=\"node.yaml\"\r\n" +
		"Content-Transfer-Encoding: 7bit\r\nContent-Type: application/node.eks.aws\r\nMime-Version: 1.0\r\n" +
		"X-Merge-Type: list(append)\r\n\r\n" + aNodeConfig + "\r\n--MIMEBOUNDARY--\r\n"
	terraformParts := []userdata.Part{{Kind: userdata.KindNodeConfig, Body: aNodeConfig, Header: textproto.MIMEHeader{
		"Content-Disposition": {`attachment; filename="node.yaml"`}, "Mime-Version": {"1.0"},
		"X-Merge-Type": {"list(append)"},
	}}}
	for name, tc := range map[string]struct {
		user string
		want []userdata.Part
	}{
		"the guide of AWS, whose last line is no end": {
			"Content-Type: multipart/mixed; boundary=\"//\"\nMIME-Version: 1.0\n\n--//\n" +
				"Content-Type: text/cloud-config; charset=\"us-ascii\"\nMIME-Version: 1.0\n" +
				"Content-Transfer-Encoding: 7bit\nContent-Disposition: attachment; filename=\"cloud-config.txt\"\n\n" +
				"#cloud-config\ncloud_final_modules:\n- [scripts-user, always]\n\n--//\n" +
				"Content-Type: text/x-shellscript; charset=\"us-ascii\"\n\n" + aScript + "\n--//\n",
			[]userdata.Part{
				{
					Kind: `text/cloud-config; charset="us-ascii"`,
					Body: "#cloud-config\ncloud_final_modules:\n- [scripts-user, always]\n",
					Header: textproto.MIMEHeader{
						"Mime-Version": {"1.0"}, "Content-Disposition": {`attachment; filename="cloud-config.txt"`},
					},
				},
				{Kind: `text/x-shellscript; charset="us-ascii"`, Body: aScript},
			},
		},
		"Terraform's cloudinit_config":            {terraform, terraformParts},
		"Terraform's cloudinit_config, as base64": {encoded(terraform), terraformParts},
		"Terraform's cloudinit_config, with gzip": {encoded(zipped(t, terraform)), terraformParts},
		"a file of gzip":                          {zipped(t, terraform), terraformParts},
		"a part with base64 and gzip for nodeadm": {
			mixed("Content-Type: application/node.eks.aws\n\n" + encoded(zipped(t, aNodeConfig))),
			[]userdata.Part{{Kind: userdata.KindNodeConfig, Body: aNodeConfig}},
		},
		"eksctl, whose boundary has no quotes": {
			"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=//\r\n\r\n--//\r\n" +
				"Content-Type: text/x-shellscript\r\nContent-Type: charset=\"us-ascii\"\r\n\r\n" + aScript + "\r\n--//\r\n" +
				"Content-Type: application/node.eks.aws\r\n\r\n" + aNodeConfig + "\r\n--//--\r\n",
			[]userdata.Part{
				{Kind: userdata.KindScript, Body: aScript},
				{Kind: userdata.KindNodeConfig, Body: aNodeConfig},
			},
		},
		"Python's MIMEMultipart": {
			"Content-Type: multipart/mixed; boundary=\"===============1528==\"\nMIME-Version: 1.0\n\n" +
				"--===============1528==\nContent-Type: text/x-shellscript; charset=\"utf-8\"\nMIME-Version: 1.0\n" +
				"Content-Transfer-Encoding: base64\n\nIyEvYmluL2Jhc2gKZWNo\nbyDDqeKCrA==\n\n--===============1528==--\n",
			[]userdata.Part{{
				Kind: `text/x-shellscript; charset="utf-8"`, Body: "#!/bin/bash\necho é€",
				Header: textproto.MIMEHeader{"Mime-Version": {"1.0"}},
			}},
		},
		"Python's EmailMessage": {
			"Content-Type: text/x-shellscript; charset=\"utf-8\"\nContent-Transfer-Encoding: quoted-printable\n" +
				"MIME-Version: 1.0\n\n#!/bin/bash\necho =\none=3D1\n",
			[]userdata.Part{{
				Kind: `text/x-shellscript; charset="utf-8"`, Body: "#!/bin/bash\necho one=1\n",
				Header: textproto.MIMEHeader{"Mime-Version": {"1.0"}},
			}},
		},
		"a message in a message": {
			mixed("Content-Type: multipart/mixed; boundary=C\n\n--C\nContent-Type: text/x-shellscript\n\n" + aScript +
				"\n--C--"),
			[]userdata.Part{{Kind: userdata.KindScript, Body: aScript}},
		},
		"a message of one part": {
			"Content-Type: text/x-shellscript\n\n" + aScript, []userdata.Part{{Kind: userdata.KindScript, Body: aScript}},
		},
		"a header in lower case": {
			"mime-version: 1.0\ncontent-type: text/x-shellscript\n\n" + aScript,
			[]userdata.Part{{
				Kind: userdata.KindScript, Body: aScript, Header: textproto.MIMEHeader{"Mime-Version": {"1.0"}},
			}},
		},
		"a part without a header": {
			"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\n" + aScript + "\n--B--\n",
			[]userdata.Part{{Body: aScript}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := userdata.Split(tc.user)
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Fatalf("%v (-want +got):\n%s", err, diff)
			}
			again, err := userdata.Split(userdata.MIME(got))
			if diff := cmp.Diff(withoutLastBreaks(got), withoutLastBreaks(again)); err != nil || diff != "" {
				t.Errorf("what it writes is read as something else: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// withoutLastBreaks returns parts without the line breaks at their end, which say nothing.
func withoutLastBreaks(parts []userdata.Part) []userdata.Part {
	var all []userdata.Part
	for _, p := range parts {
		p.Body = strings.TrimRight(p.Body, "\r\n")
		all = append(all, p)
	}
	return all
}

// mixed returns a message with one part.
func mixed(part string) string {
	return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n" + part + "\n--B--\n"
}

// TestSplitDecodesParts checks the encodings of RFC 2045, and that a part in an unknown or false encoding is refused
// before an instance reads it.
func TestSplitDecodesParts(t *testing.T) {
	for name, tc := range map[string]struct{ encoding, body, want, error string }{
		"7bit":                   {encoding: "7bit", body: aScript, want: aScript},
		"8BIT":                   {encoding: "8BIT", body: aScript + " é", want: aScript + " é"},
		"binary":                 {encoding: "binary", body: aScript, want: aScript},
		"base64":                 {encoding: "base64", body: "IyEvYmluL2Jhc2gK\n ZWNobyBvbmU=\n", want: aScript},
		"base64 of no text":      {encoding: "base64", body: "H4sIAAAA", want: "\x1f\x8b\x08\x00\x00\x00"},
		"quoted-printable":       {encoding: "Quoted-Printable", body: "#!/bin/bash\necho=20o=\nne", want: aScript},
		"false base64":           {encoding: "base64", body: aScript, error: "not in base64 as its header says"},
		"false quoted-printable": {encoding: "quoted-printable", body: "=\x01", error: "not in quoted-printable"},
		"unknown":                {encoding: "x-uuencode", body: aScript, error: `is "x-uuencode", and must be 7bit`},
	} {
		t.Run(name, func(t *testing.T) {
			header := "Content-Type: text/x-shellscript\nContent-Transfer-Encoding: " + tc.encoding + "\n\n"
			for form, user := range map[string]string{"a part": mixed(header + tc.body), "a message": header + tc.body} {
				got, err := userdata.Split(user)
				switch {
				case tc.error != "":
					if err == nil || !strings.Contains(err.Error(), tc.error) {
						t.Errorf("%s: the error is %v, want one with %q", form, err, tc.error)
					}
				case err != nil:
					t.Errorf("%s: %v", form, err)
				default:
					want := []userdata.Part{{Kind: userdata.KindScript, Body: tc.want}}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s (-want +got):\n%s", form, diff)
					}
				}
			}
		})
	}
}

// TestPartsKeepTheirCharacters: cloud-init reads a message as text, and only ASCII survives that in a part without an
// encoding. nodeadm reads bytes.
func TestPartsKeepTheirCharacters(t *testing.T) {
	header := textproto.MIMEHeader{"X-Merge-Type": {"list(append)"}}
	long := "#!/bin/sh\necho é" + strings.Repeat("x", 60)
	for name, tc := range map[string]struct {
		part userdata.Part
		want string
	}{
		"a script in ASCII": {
			userdata.Part{Kind: userdata.KindScript, Header: header, Body: aScript + "\t~\r\n"},
			"Content-Type: text/x-shellscript\nX-Merge-Type: list(append)\n\n" + aScript + "\t~\n",
		},
		"a script beyond ASCII": {
			userdata.Part{Kind: userdata.KindScript, Header: header, Body: long},
			"Content-Type: text/x-shellscript\nX-Merge-Type: list(append)\nContent-Transfer-Encoding: base64\n\n" +
				encoded(long)[:76] + "\n" + encoded(long)[76:] + "\n",
		},
		"bytes": {
			userdata.Part{Kind: "application/x-gzip", Body: "\x1f\x8b\x00"},
			"Content-Type: application/x-gzip\nContent-Transfer-Encoding: base64\n\nH4sA\n",
		},
		"a NodeConfig": {
			userdata.Part{Kind: userdata.KindNodeConfig, Body: aNodeConfig + " # é"},
			"Content-Type: application/node.eks.aws\n\n" + aNodeConfig + " # é\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := userdata.MIME([]userdata.Part{tc.part})
			_, got, _ := strings.Cut(text, "--multieni-part\n")
			if diff := cmp.Diff(tc.want+"--multieni-part--\n", got); diff != "" {
				t.Errorf("part (-want +got):\n%s", diff)
			}
			again, err := userdata.Split(text)
			want := withoutLastBreaks([]userdata.Part{tc.part})
			if diff := cmp.Diff(want, withoutLastBreaks(again)); err != nil || diff != "" {
				t.Errorf("read again: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestSplitKnowsTheFormsOfCloudInit has the beginnings of user data that is no message.
func TestSplitKnowsTheFormsOfCloudInit(t *testing.T) {
	for begin, kind := range map[string]string{
		"#!/bin/sh":             "text/x-shellscript",
		"#cloud-config":         "text/cloud-config",
		"#Cloud-Config":         "text/cloud-config",
		"#cloud-config-archive": "text/cloud-config-archive",
		"#cloud-config-jsonp":   "text/cloud-config-jsonp",
		"#cloud-boothook":       "text/cloud-boothook",
		"#include":              "text/x-include-url",
		"#include-once":         "text/x-include-once-url",
		"#part-handler":         "text/part-handler",
		"## template: jinja":    "text/jinja2",
	} {
		t.Run(begin, func(t *testing.T) {
			user := begin + "\nContent-Type: text/plain\n"
			got, err := userdata.Split(user)
			if diff := cmp.Diff([]userdata.Part{{Kind: kind, Body: user}}, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestSplitReadsNodeConfigs as values: in YAML or JSON, by itself and as a part. It refuses what nodeadm would refuse
// when the node boots. Each document becomes a part, since nodeadm reads only the first one of a part.
func TestSplitReadsNodeConfigs(t *testing.T) {
	const head = "apiVersion: node.eks.aws/v1alpha1\n"
	const second = head + "kind: NodeConfig\nspec: {instance: {localStorage: {strategy: RAID0}}}\n"
	const inJSON = "{\n\t\"apiVersion\": \"node.eks.aws/v1alpha1\",\n\t\"kind\": \"NodeConfig\"\n}"
	const inQuotes = "\"apiVersion\": 'node.eks.aws/v1alpha1'\n'kind' : \"NodeConfig\""
	for name, tc := range map[string]struct {
		text  string
		want  []string
		error string
	}{
		"YAML":                     {text: aNodeConfig, want: []string{aNodeConfig}},
		"a first line":             {text: "---\n" + aNodeConfig, want: []string{"---\n" + aNodeConfig}},
		"a comment":                {text: "# mine\n" + aNodeConfig, want: []string{"# mine\n" + aNodeConfig}},
		"quotes":                   {text: inQuotes, want: []string{inQuotes}},
		"JSON":                     {text: inJSON, want: []string{inJSON}},
		"two documents":            {text: second + "---\n" + second, want: []string{second, "---\n" + second}},
		"an empty document":        {text: "---\n---\n" + aNodeConfig, want: []string{"---\n" + aNodeConfig}},
		"another group":            {text: "apiVersion: v1 # not node.eks.aws\nkind: NodeConfig", error: `apiVersion "v1" `},
		"another kind":             {text: head + "kind: Node", error: `and the kind "Node":`},
		"no kind":                  {text: head, error: `and the kind "":`},
		"a second, other document": {text: second + "---\napiVersion: v1\nkind: Pod\n", error: `and the kind "Pod":`},
		"not YAML":                 {text: head + "\tkind: NodeConfig", error: "its NodeConfig is not YAML: yaml: "},
		"a key twice":              {text: second + "kind: NodeConfig", error: "its NodeConfig is not YAML: yaml: "},
		"not an object":            {text: "- node.eks.aws/v1alpha1", error: `apiVersion ""`},
	} {
		t.Run(name, func(t *testing.T) {
			var want []userdata.Part
			for _, body := range tc.want {
				want = append(want, userdata.Part{Kind: userdata.KindNodeConfig, Body: body})
			}
			part := mixed("Content-Type: application/node.eks.aws\n\n" + tc.text)
			for form, user := range map[string]string{"by itself": tc.text, "as a part": part} {
				got, err := userdata.Split(user)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", form, diff)
				}
				if (err == nil) != (tc.error == "") || err != nil && !strings.Contains(err.Error(), tc.error) {
					t.Errorf("%s: the error is %v, want one with %q", form, err, tc.error)
				}
			}
		})
	}
}

// TestSplitRefusesWhatItCannotKeep has mistakes that an instance would not report, and the words that name them.
func TestSplitRefusesWhatItCannotKeep(t *testing.T) {
	for name, tc := range map[string]struct{ user, error string }{
		"an empty NodeConfig":     {mixed("Content-Type: application/node.eks.aws\n\n"), "one of its NodeConfigs is empty"},
		"a type of no form":       {mixed("Content-Type: text/x; a=\n\n" + aScript), "the Content-Type \"text/x; a=\""},
		"a part without a header": {mixed("echo one\n\n" + aScript), "the header of one of its MIME parts"},
		"broken gzip":             {"\x1f\x8b" + aScript, "its gzip data cannot be read"},
		"gzip that ends early":    {zipped(t, aScript)[:20], "its gzip data cannot be read"},
		"much in gzip":            {zipped(t, strings.Repeat("x", 16385)), "its gzip data has more than 16384 bytes"},
		"base64 of another form":  {encoded("echo one"), "it is neither a MIME message"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := userdata.Split(tc.user)
			if err == nil || !strings.Contains(err.Error(), tc.error) || got != nil {
				t.Errorf("the error is %v, want one with %q; the parts are %v", err, tc.error, got)
			}
		})
	}
}
