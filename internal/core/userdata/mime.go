// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package userdata writes EC2 user data: the instructions that an instance follows when it boots for the first time.
package userdata

import (
	"encoding/base64"
	"fmt"
	"maps"
	"mime"
	"net/textproto"
	"slices"
	"strings"
)

// MaxSize is the maximum number of bytes of user data before they are encoded (EC2 user guide, "User data").
const MaxSize = 16 * 1024

// The kinds of parts, as cloud-init and nodeadm know them.
const (
	KindScript      = "text/x-shellscript"
	KindCloudConfig = "text/cloud-config"
	KindNodeConfig  = "application/node.eks.aws"
)

// Part is one part of user data.
type Part struct {
	// Kind is the media type, with its parameters. If it is empty, cloud-init recognises the part by its first bytes.
	Kind string
	// Header has the other fields of the part's header, for example X-Merge-Type. It has no transfer encoding.
	Header textproto.MIMEHeader
	// Body is not encoded.
	Body string
}

// isNodeConfig reports whether nodeadm reads the part.
func (p Part) isNodeConfig() bool {
	media, _, _ := mime.ParseMediaType(p.Kind)
	return media == KindNodeConfig
}

// MIME joins parts into one message, in their order.
func MIME(parts []Part) string {
	var text strings.Builder
	boundary := boundary(parts)
	fmt.Fprintf(&text, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", boundary)
	for _, p := range parts {
		fmt.Fprintf(&text, "--%s\n", boundary)
		p.write(&text)
	}
	fmt.Fprintf(&text, "--%s--\n", boundary)
	return text.String()
}

// boundary returns the text between the parts, which none of them contains. It is the same each time, so that a launch
// template does not change.
func boundary(parts []Part) string {
	text := "multieni-part"
	for n := 1; slices.ContainsFunc(parts, func(p Part) bool { return strings.Contains(p.Body, text) }); n++ {
		text = fmt.Sprintf("multieni-part-%d", n)
	}
	return text
}

// write writes the part. cloud-init reads a message as text and changes characters beyond ASCII in a part that is not
// encoded (get_payload of Python's email.message). So base64 protects them. nodeadm reads bytes, and its first versions
// decode no base64.
func (p Part) write(text *strings.Builder) {
	if p.Kind != "" {
		fmt.Fprintf(text, "Content-Type: %s\n", p.Kind)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Header)) {
		for _, value := range p.Header[name] {
			fmt.Fprintf(text, "%s: %s\n", name, value)
		}
	}
	if p.isNodeConfig() || isASCIIText(p.Body) {
		fmt.Fprintf(text, "\n%s\n", strings.TrimRight(p.Body, "\r\n"))
		return
	}
	const width = 76 // RFC 2045, 6.8
	text.WriteString("Content-Transfer-Encoding: base64\n\n")
	for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString([]byte(p.Body))), width) {
		fmt.Fprintf(text, "%s\n", line)
	}
}

// isASCIIText reports whether a text has only characters of ASCII that are visible or spaces.
func isASCIIText(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r > '~' || r < ' ' && r != '\t' && r != '\n' && r != '\r'
	})
}
