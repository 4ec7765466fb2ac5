// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// certificates is where Linux systems keep the certificates that TLS trusts. The image takes those of the system that it is
// built on, since it has no other base.
func certificates() ([]byte, error) {
	for _, file := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"} {
		content, err := os.ReadFile(file)
		if err == nil && x509.NewCertPool().AppendCertsFromPEM(content) {
			return content, nil
		}
	}
	return nil, fmt.Errorf("this system has no certificate bundle to put into the image; install ca-certificates")
}

// programLayer is a layer of the program, the certificates, and an empty /tmp.
func programLayer(program string, made time.Time) (v1.Layer, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	trusted, err := certificates()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	archive := tar.NewWriter(&b)
	for _, entry := range []struct {
		name    string
		mode    int64
		content []byte
	}{
		{"etc/", 0o755, nil}, {"etc/ssl/", 0o755, nil}, {"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, trusted},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{"tmp/", 0o1777, nil},
		{"multieni", 0o755, content},
	} {
		header := &tar.Header{Name: entry.name, Mode: entry.mode, Size: int64(len(entry.content)), ModTime: made, Typeflag: tar.TypeReg}
		if entry.content == nil {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(entry.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithCompressionLevel(9), tarball.WithMediaType(types.OCILayer))
}
