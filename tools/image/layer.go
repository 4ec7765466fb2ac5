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
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// certificates is where Linux systems keep the certificates that TLS trusts. The image takes those of the system that
// it is built on, since it has no other base.
func certificates() ([]byte, error) {
	for _, file := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/ssl/cert.pem"} {
		content, err := os.ReadFile(file)
		if err == nil && x509.NewCertPool().AppendCertsFromPEM(content) {
			return content, nil
		}
	}
	return nil, fmt.Errorf("this system has no certificate bundle to put into the image; install ca-certificates")
}

// file is a file of a layer, or a folder if it has no content.
type file struct {
	name    string
	mode    int64
	content []byte
}

// programLayer is a layer of the programs in a folder, the certificates, and an empty /tmp.
func programLayer(folder string, programs []string, made time.Time) (v1.Layer, error) {
	trusted, err := certificates()
	if err != nil {
		return nil, err
	}
	files := []file{
		{"etc/", 0o755, nil}, {"etc/ssl/", 0o755, nil}, {"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, trusted},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{"tmp/", 0o1777, nil},
	}
	for _, program := range programs {
		content, err := os.ReadFile(filepath.Join(folder, program))
		if err != nil {
			return nil, err
		}
		files = append(files, file{program, 0o755, content})
	}
	return layerOf(files, made)
}

func layerOf(files []file, made time.Time) (v1.Layer, error) {
	var b bytes.Buffer
	archive := tar.NewWriter(&b)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: made, Typeflag: tar.TypeReg}
		if f.content == nil {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithCompressionLevel(9), tarball.WithMediaType(types.OCILayer))
}
