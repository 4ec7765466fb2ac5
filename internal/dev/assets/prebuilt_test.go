// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/multieni/multieni/internal/dev/assets"
)

// site is a server with an index of prebuilt programs, and the archive that it lists.
type site struct {
	version  string       // in the index; empty: the one that is looked for
	checksum string       // in the index; empty: the right one
	hangs    string       // the path that answers nothing
	archives atomic.Int32 // how often the archive was requested
}

func (s *site) serve(t *testing.T) {
	t.Helper()
	archive := archiveOf(t, assets.APIServer, assets.Etcd, assets.Kubectl)
	if s.version == "" {
		s.version = assets.PrebuiltVersion()
	}
	if s.checksum == "" {
		s.checksum = fmt.Sprintf("%x", sha512.Sum512(archive))
	}
	done := make(chan struct{})
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == s.hangs {
			_, _ = w.Write(archive[:10])
			_ = http.NewResponseController(w).Flush()
			<-done
			return
		}
		switch r.URL.Path {
		case "/index.yaml":
			fmt.Fprintf(w, "releases:\n  v%[1]s:\n    envtest-v%[1]s-%[2]s-%[3]s.tar.gz: {hash: %[4]s, selfLink: %[5]s/archive}\n",
				s.version, runtime.GOOS, runtime.GOARCH, s.checksum, server.URL)
		case "/archive":
			s.archives.Add(1)
			_, _ = w.Write(archive)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(done) })
	t.Setenv(assets.EnvIndex, server.URL+"/index.yaml")
}

// archiveOf packs programs that print that they were downloaded.
func archiveOf(t *testing.T, names ...string) []byte {
	t.Helper()
	var content bytes.Buffer
	zipped := gzip.NewWriter(&content)
	packed := tar.NewWriter(zipped)
	for _, name := range names {
		script := "#!/bin/sh\necho downloaded " + name + "\n"
		header := &tar.Header{Name: "controller-tools/envtest/" + name, Mode: 0o755, Size: int64(len(script)), Typeflag: tar.TypeReg}
		if err := packed.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := packed.Write([]byte(script)); err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return content.Bytes()
}

// says runs a program of the folder.
func says(t *testing.T, dir, name string) string {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), filepath.Join(dir, name)).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(said))
}

func TestDirDownloads(t *testing.T) {
	for _, where := range []string{"in a checkout", "outside a checkout"} {
		t.Run(where, func(t *testing.T) {
			checkout(t)
			if where == "outside a checkout" {
				t.Chdir(t.TempDir())
			}
			var s site
			s.serve(t)
			for range 2 {
				var told strings.Builder
				dir, err := assets.Dir(t.Context(), &told)
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{assets.APIServer, assets.Etcd, assets.Kubectl} {
					if got, want := says(t, dir, name), "downloaded "+name; got != want {
						t.Errorf("%s says %q, want %q", name, got, want)
					}
				}
				if lines := strings.Count(told.String(), "\n"); lines > 1 {
					t.Errorf("told %d lines:\n%s", lines, &told)
				}
			}
			if n := s.archives.Load(); n != 1 {
				t.Errorf("downloaded %d times for two calls, want once", n)
			}
		})
	}
}

// Dir compiles programs that it cannot download, as if there were no index; one line says why.
func TestDirCompilesWhatItCannotDownload(t *testing.T) {
	assets.SetPatience(t, 200*time.Millisecond)
	for name, row := range map[string]struct {
		site *site
		why  string
	}{
		"the index hangs":        {&site{hangs: "/index.yaml"}, "no answer for 200ms"},
		"the archive hangs":      {&site{hangs: "/archive"}, "no answer for 200ms"},
		"a wrong checksum":       {&site{checksum: strings.Repeat("0", 128)}, "checksum mismatch"},
		"the version is missing": {&site{version: "1.20.0"}, "the index has no envtest-v" + assets.PrebuiltVersion()},
	} {
		t.Run(name, func(t *testing.T) {
			checkout(t)
			row.site.serve(t)
			compiles(t, row.why)
		})
	}
	t.Run("nothing answers", func(t *testing.T) {
		checkout(t)
		server := httptest.NewServer(http.NotFoundHandler())
		server.Close()
		t.Setenv(assets.EnvIndex, server.URL)
		compiles(t, "refused")
	})
	t.Run("it shall not", func(t *testing.T) {
		checkout(t)
		compiles(t, "")
	})
}

// compiles fails the test unless Dir compiles the programs, and prints the reason in one line.
func compiles(t *testing.T, why string) {
	t.Helper()
	var told strings.Builder
	dir, err := assets.Dir(t.Context(), &told)
	if err != nil {
		t.Fatal(err)
	}
	if got := says(t, dir, assets.Etcd); got != "I am etcd" {
		t.Errorf("etcd says %q, want the compiled one", got)
	}
	if !strings.Contains(told.String(), why) || strings.Count(told.String(), "\n") > 1 {
		t.Errorf("told %q, want one line with %q", &told, why)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "*.partial"))
	if err != nil || len(left) > 0 {
		t.Errorf("left %v behind, %v", left, err)
	}
}

// Outside a checkout Dir cannot compile: the error says which source is missing, and why the download failed.
func TestDirWithoutSourceAndIndex(t *testing.T) {
	checkout(t)
	t.Chdir(t.TempDir())
	s := site{version: "1.20.0"}
	s.serve(t)
	_, err := assets.Dir(t.Context(), os.Stderr)
	for _, want := range []string{assets.EnvAssets, "checkout", "the index has no"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
}

// Dir prefers the exact version from an earlier compilation, and downloads nothing.
func TestDirPrefersWhatWasCompiled(t *testing.T) {
	checkout(t)
	compiled := dir(t)
	var s site
	s.serve(t)
	if got := dir(t); got != compiled {
		t.Errorf("got %s, want %s", got, compiled)
	}
}
