// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/quotedprintable"
	"net/textproto"
	"regexp"
	"strings"
)

// Split divides existing user data into its parts. It reads what cloud-init and nodeadm read: the forms that the first
// bytes tell apart (cloud-init, "User data formats"), MIME messages, and NodeConfigs in YAML or JSON; each also with
// gzip or base64 around it. The error says why a text is none of them.
func Split(user string) ([]Part, error) {
	text, err := unpack(user)
	if err != nil || strings.TrimSpace(text) == "" {
		return nil, err
	}
	if kind := kindOf(text); kind != "" {
		return []Part{{Kind: kind, Body: text}}, nil
	}
	header, body, err := readMessage(strings.TrimLeft(text, " \t\r\n"))
	switch {
	case err == nil && (header.Get("Mime-Version") != "" || header.Get("Content-Type") != ""):
		return parts(header, body)
	case err != nil && beginsAsMessage(text):
		return nil, fmt.Errorf("its MIME header cannot be read: %w", err)
	case strings.Contains(text, nodeConfigGroup):
		return nodeConfigs(Part{Kind: KindNodeConfig, Body: text})
	default:
		return nil, errors.New("it is neither a MIME message, a script that begins with #!, #cloud-config or another form " +
			"of cloud-init, nor a NodeConfig of node.eks.aws")
	}
}

// forms are the beginnings of user data that is no MIME message, with their kinds, longer beginnings first
// (cloud-init, cloudinit/handlers).
var forms = []struct{ begin, kind string }{
	{"#!", KindScript},
	{"#cloud-config-archive", "text/cloud-config-archive"},
	{"#cloud-config-jsonp", "text/cloud-config-jsonp"},
	{"#cloud-config", KindCloudConfig},
	{"#cloud-boothook", "text/cloud-boothook"},
	{"#include-once", "text/x-include-once-url"},
	{"#include", "text/x-include-url"},
	{"#part-handler", "text/part-handler"},
	{"## template: jinja", "text/jinja2"},
}

// kindOf returns the kind that the first bytes of a text declare, or "".
func kindOf(text string) string {
	begin := strings.ToLower(strings.TrimSpace(text))
	for _, form := range forms {
		if strings.HasPrefix(begin, form.begin) {
			return form.kind
		}
	}
	return ""
}

func beginsAsMessage(text string) bool {
	begin := strings.ToLower(strings.TrimSpace(text))
	return strings.HasPrefix(begin, "mime-version:") || strings.HasPrefix(begin, "content-type:")
}

// unpack undoes base64 and gzip around a text, as nodeadm does. Terraform's cloudinit_config writes both by default. No
// text that this package reads is base64 by chance.
func unpack(text string) (string, error) {
	if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text)); err == nil {
		text = string(plain)
	}
	if !strings.HasPrefix(text, "\x1f\x8b") { // RFC 1952, 2.3.1
		return text, nil
	}
	reader, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		return "", fmt.Errorf("its gzip data cannot be read: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(reader, MaxSize+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("its gzip data cannot be read: %w", err)
	case len(plain) > MaxSize:
		return "", fmt.Errorf("its gzip data has more than %d bytes, and it is written without gzip", MaxSize)
	default:
		return string(plain), nil
	}
}

var blankLine = regexp.MustCompile(`(?m)^\r?\n`)

// readMessage reads the header of a message or a part, and returns what follows it.
func readMessage(text string) (header textproto.MIMEHeader, body string, err error) {
	head := text
	if at := blankLine.FindStringIndex(text); at != nil {
		head, body = text[:at[0]], text[at[1]:]
	}
	header, err = textproto.NewReader(bufio.NewReader(strings.NewReader(head + "\n\n"))).ReadMIMEHeader()
	return header, body, err
}

// parts returns the parts of a message. A message that is not multipart is one part. Messages in messages are
// containers without a meaning of their own to cloud-init, and nodeadm does not look into them.
func parts(header textproto.MIMEHeader, body string) ([]Part, error) {
	body, err := decode(body, header.Get("Content-Transfer-Encoding"))
	if err != nil {
		return nil, err
	}
	p := Part{Kind: header.Get("Content-Type"), Body: body}
	media, params, err := mime.ParseMediaType(p.Kind)
	switch {
	case strings.HasPrefix(media, "multipart/"):
		return multiparts(boundaryOf(p.Kind, params), body)
	case err != nil && p.Kind != "": // nodeadm stops at such a part
		return nil, fmt.Errorf("the Content-Type %q of one of its MIME parts cannot be read: %w", p.Kind, err)
	}
	maps.DeleteFunc(header, func(name string, _ []string) bool {
		return name == "Content-Type" || name == "Content-Transfer-Encoding"
	})
	if len(header) > 0 {
		p.Header = header
	}
	switch {
	case p.isNodeConfig():
		return nodeConfigs(p)
	case p.Kind == "" && p.Header == nil && strings.TrimSpace(body) == "":
		return nil, nil
	default:
		return []Part{p}, nil
	}
}

func multiparts(boundary, body string) ([]Part, error) {
	if boundary == "" {
		return nil, errors.New("its MIME header names no boundary")
	}
	all := sections(body, boundary)
	if len(all) == 0 {
		return nil, fmt.Errorf("its MIME message has no part: no line is --%s", boundary)
	}
	var found []Part
	for _, section := range all {
		header, body, err := readMessage(section)
		if err != nil {
			return nil, fmt.Errorf("the header of one of its MIME parts cannot be read: %w", err)
		}
		more, err := parts(header, body)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

var bareBoundary = regexp.MustCompile(`(?i);\s*boundary=([^\s";]+)`)

// boundaryOf returns the boundary of a media type. eksctl writes boundary=//, which RFC 2045 wants in quotes.
func boundaryOf(kind string, params map[string]string) string {
	if found := bareBoundary.FindStringSubmatch(kind); params["boundary"] == "" && found != nil {
		return found[1]
	}
	return params["boundary"]
}

// sections returns the texts between the lines with the boundary. As for cloud-init, and other than for
// mime/multipart, lines may end with and without a carriage return in one message, as Terraform writes them, and the
// last boundary may be missing, as in an example of AWS. Sections without text are no parts.
func sections(body, boundary string) []string {
	var all []string
	var text strings.Builder
	end := func() {
		if section := text.String(); strings.TrimSpace(section) != "" {
			all = append(all, strings.TrimSuffix(strings.TrimSuffix(section, "\n"), "\r"))
		}
		text.Reset()
	}
	inside := false
	for line := range strings.Lines(body) {
		switch strings.TrimRight(line, " \t\r\n") {
		case "--" + boundary:
			end()
			inside = true
		case "--" + boundary + "--":
			end()
			return all
		default:
			if inside {
				text.WriteString(line)
			}
		}
	}
	end()
	return all
}

// decode undoes the encoding of a part (RFC 2045, 6).
func decode(body, encoding string) (string, error) {
	var plain []byte
	var err error
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "7bit", "8bit", "binary":
		return body, nil
	case "base64":
		plain, err = base64.StdEncoding.DecodeString(string(bytes.Join(bytes.Fields([]byte(body)), nil)))
	case "quoted-printable":
		plain, err = io.ReadAll(quotedprintable.NewReader(strings.NewReader(body)))
	default:
		return "", fmt.Errorf("the Content-Transfer-Encoding of one of its MIME parts is %q, and must be 7bit, 8bit, "+
			"binary, base64 or quoted-printable", encoding)
	}
	if err != nil {
		return "", fmt.Errorf("one of its MIME parts is not in %s as its header says: %w", encoding, err)
	}
	return string(plain), nil
}
