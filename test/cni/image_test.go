// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/multieni/multieni/test/inputs"
)

// podImage is the name of the image of pods and of their sandboxes. No registry has it.
const podImage = "localhost/multieni/pod:test"

// layout is an archive of an OCI image layout (OCI Image Format Specification, "Image Layout Specification").
type layout struct {
	content bytes.Buffer
	archive *tar.Writer
}

// imageArchive writes the image with the program of folder pod to a file.
func imageArchive(t *testing.T, file string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "pod")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", program, "./pod")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program of pods: %v: %s", err, output)
	}
	if err := inputs.Files("pod"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var files bytes.Buffer
	layer := tar.NewWriter(&files)
	add(t, layer, "pod", 0o755, text)
	if err := layer.Close(); err != nil {
		t.Fatal(err)
	}

	l := &layout{}
	l.archive = tar.NewWriter(&l.content)
	rootfs := l.blob(t, "application/vnd.oci.image.layer.v1.tar", files.Bytes())
	config := l.blob(t, "application/vnd.oci.image.config.v1+json", encode(t, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Entrypoint": []string{"/pod"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{rootfs["digest"]}},
	}))
	manifest := l.blob(t, "application/vnd.oci.image.manifest.v1+json", encode(t, map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []any{rootfs},
	}))
	manifest["annotations"] = map[string]string{"io.containerd.image.name": podImage}
	add(t, l.archive, "index.json", 0o644, encode(t, map[string]any{"schemaVersion": 2, "manifests": []any{manifest}}))
	add(t, l.archive, "oci-layout", 0o644, []byte(`{"imageLayoutVersion": "1.0.0"}`))
	if err := l.archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, l.content.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// blob adds content to the layout, and returns its descriptor.
func (l *layout) blob(t *testing.T, mediaType string, content []byte) map[string]any {
	t.Helper()
	digest := fmt.Sprintf("%x", sha256.Sum256(content))
	add(t, l.archive, "blobs/sha256/"+digest, 0o644, content)
	return map[string]any{"mediaType": mediaType, "digest": "sha256:" + digest, "size": len(content)}
}

func add(t *testing.T, archive *tar.Writer, name string, mode int64, content []byte) {
	t.Helper()
	err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))})
	if err == nil {
		_, err = archive.Write(content)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
