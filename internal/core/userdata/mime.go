// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package userdata writes EC2 user data: the instructions that an instance follows when it boots for the first time.
package userdata

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
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

// boundary returns the text between the parts, which none of them contains. It is the same each time, so that a launch
// template does not change.
func boundary(parts []Part) string {
	text := "multieni-part"
	for n := 1; slices.ContainsFunc(parts, func(p Part) bool { return strings.Contains(p.Body, text) }); n++ {
		text = fmt.Sprintf("multieni-part-%d", n)
	}
	return text
}

// Part is one part of user data.
type Part struct{ Kind, Body string }

// MIME joins parts into one message, in their order.
func MIME(parts []Part) string {
	var text strings.Builder
	boundary := boundary(parts)
	fmt.Fprintf(&text, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", boundary)
	for _, p := range parts {
		fmt.Fprintf(&text, "--%s\nContent-Type: %s\n\n%s\n", boundary, p.Kind, strings.TrimRight(p.Body, "\n"))
	}
	fmt.Fprintf(&text, "--%s--\n", boundary)
	return text.String()
}

// Split divides existing user data into its parts. It recognises the format by its first bytes; the error says why a
// format is unknown.
func Split(user string) ([]Part, error) {
	begin := strings.TrimSpace(user)
	switch {
	case begin == "":
		return nil, nil
	case strings.HasPrefix(begin, "MIME-Version:"), strings.HasPrefix(begin, "Content-Type: multipart/"):
		return mimeParts(begin)
	case strings.HasPrefix(begin, "#!"):
		return []Part{{KindScript, user}}, nil
	case strings.HasPrefix(begin, "#cloud-config"):
		return []Part{{KindCloudConfig, user}}, nil
	case strings.Contains(begin, "apiVersion: node.eks.aws/"):
		return []Part{{KindNodeConfig, user}}, nil
	default:
		return nil, errors.New("it is neither a MIME message, a script that begins with #!, #cloud-config, nor a " +
			"NodeConfig of node.eks.aws")
	}
}

func mimeParts(text string) ([]Part, error) {
	message, err := mail.ReadMessage(strings.NewReader(text + "\n"))
	if err != nil {
		return nil, fmt.Errorf("its MIME header cannot be read: %w", err)
	}
	_, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || params["boundary"] == "" {
		return nil, errors.New("its MIME header names no boundary")
	}
	reader := multipart.NewReader(message.Body, params["boundary"])
	var parts []Part
	for {
		next, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("its MIME parts cannot be read: %w", err)
		}
		body, err := io.ReadAll(next)
		if err != nil {
			return nil, fmt.Errorf("its MIME parts cannot be read: %w", err)
		}
		if next.Header.Get("Content-Transfer-Encoding") != "" {
			return nil, errors.New("one of its MIME parts is encoded; write the parts as plain text")
		}
		parts = append(parts, Part{next.Header.Get("Content-Type"), string(body)})
	}
}
