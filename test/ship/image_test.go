// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/test/inputs"
	"github.com/multieni/multieni/test/size"
)

// maxCompressed is the size limit of the image in bytes. The aws-multi-eni-controller's has 22 MB. The authentication
// of metrics readers, by the library of the API server, adds 1.6 MB to ours, and the CNI program 1.6 MB.
const maxCompressed = 26e6

// image is the image of this machine's architecture as `make image` writes it: the layout, and a folder with its
// programs.
type image struct {
	layout, programs string
	// builder is the program that built the image.
	builder    string
	config     imageConfig
	compressed int64
	files      map[string]int64 // name to mode
}

type imageConfig struct {
	Architecture string
	Config       struct {
		User       string
		Entrypoint []string
		Labels     map[string]string
	}
}

const imageVersion = "v9.9.9"

// buildImage builds the image once for all tests. Their process leaves the folder to the system to clean: its programs
// are larger than a test should copy.
var buildImage = sync.OnceValues(func() (image, error) {
	dir, err := os.MkdirTemp("", "multieni-image-")
	if err != nil {
		return image{}, err
	}
	builder := filepath.Join(dir, "builder")
	layout := filepath.Join(dir, "image")
	for _, command := range []*exec.Cmd{
		exec.Command("go", "-C", "tools/image", "build", "-o", builder, "."),
		exec.Command(builder, "--arch", runtime.GOARCH, "--version", imageVersion, "--out", layout),
	} {
		command.Dir, command.Env = root, append(os.Environ(), "GOFLAGS=")
		if out, err := command.CombinedOutput(); err != nil {
			return image{}, fmt.Errorf("%s: %w\n%s", command, err, out)
		}
	}
	if err := errors.Join(inputs.Files(filepath.Join(root, "tools/image")), inputs.Sources(context.Background(), "github.com/multieni/multieni/cmd/...")); err != nil {
		return image{}, err
	}
	i, err := unpack(layout, dir)
	i.builder = builder
	return i, err
})

// built returns the image.
func built(t *testing.T) image {
	t.Helper()
	size.NeedsAll(t, "it compiles the programs of the image as a release does")
	i, err := buildImage()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// descriptor is a reference to a blob of an OCI layout.
type descriptor struct {
	Digest   string
	Size     int64
	Platform struct{ OS, Architecture string }
}

// blob reads a JSON blob of a layout.
func blob(layout, digest string, into any) error {
	content, err := os.ReadFile(filepath.Join(layout, "blobs", filepath.FromSlash(strings.ReplaceAll(digest, ":", "/"))))
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

// indexOf lists the images of a layout.
func indexOf(layout string) ([]descriptor, error) {
	var index struct{ Manifests []descriptor }
	content, err := os.ReadFile(filepath.Join(layout, "index.json"))
	if err != nil {
		return nil, err
	}
	return index.Manifests, json.Unmarshal(content, &index)
}

// program returns the local path of the program with that path in the image.
func (i image) program(path string) string { return filepath.Join(i.programs, path) }

// unpack reads the only image of a layout and puts its programs into a folder.
func unpack(layout, dir string) (image, error) {
	manifests, err := indexOf(layout)
	if err != nil {
		return image{}, err
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	i := image{layout: layout, programs: filepath.Join(dir, "programs"), files: map[string]int64{}}
	if err := os.MkdirAll(i.programs, 0o755); err != nil {
		return image{}, err
	}
	if err := blob(layout, manifests[0].Digest, &manifest); err != nil {
		return image{}, err
	}
	for _, layer := range manifest.Layers {
		i.compressed += layer.Size
		if err := i.unpackLayer(layer.Digest); err != nil {
			return image{}, err
		}
	}
	return i, blob(layout, manifest.Config.Digest, &i.config)
}

func (i image) unpackLayer(digest string) error {
	file, err := os.Open(filepath.Join(i.layout, "blobs", filepath.FromSlash(strings.ReplaceAll(digest, ":", "/"))))
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		i.files[header.Name] = header.Mode
		if header.Mode != 0o755 || header.Typeflag != tar.TypeReg {
			continue
		}
		program, err := os.OpenFile(i.program(header.Name), os.O_CREATE|os.O_WRONLY, 0o755)
		if err != nil {
			return err
		}
		if _, err := io.Copy(program, archive); err != nil {
			return errors.Join(err, program.Close())
		}
		if err := program.Close(); err != nil {
			return err
		}
	}
}

// The image contains only the programs and what TLS needs, runs as an unprivileged user, and is small.
func TestImage(t *testing.T) {
	i := built(t)
	if i.compressed > maxCompressed {
		t.Errorf("the image has %d bytes, the limit is %.0f", i.compressed, maxCompressed)
	}
	t.Logf("linux/%s: %.1f MB compressed", runtime.GOARCH, float64(i.compressed)/1e6)
	want := []string{"eni-manager", "etc/", "etc/passwd", "etc/ssl/", "etc/ssl/certs/", "etc/ssl/certs/ca-certificates.crt", "multieni", "multieni-cni", "tmp/"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(i.files))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	got := []any{i.config.Architecture, i.config.Config.User, i.config.Config.Entrypoint, i.config.Config.Labels["org.opencontainers.image.version"]}
	if diff := cmp.Diff([]any{runtime.GOARCH, "65532:65532", []string{"/multieni"}, imageVersion}, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

// By default the builder makes an index of an image for each architecture, each with a bill of materials. A fake
// compiler, which only records the requested platforms, replaces the real one.
func TestImageIsForBothArchitectures(t *testing.T) {
	i := built(t)
	dir := t.TempDir()
	compiler := `#!/bin/sh
echo "$GOOS $GOARCH $CGO_ENABLED" >> "$ASKED"
while [ "$1" != -o ]; do shift; done
cp "$PROGRAMS"/* "$2"
`
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(compiler), 0o755); err != nil {
		t.Fatal(err)
	}
	layout, asked := filepath.Join(dir, "image"), filepath.Join(dir, "asked")
	command := exec.CommandContext(t.Context(), i.builder, "--version", imageVersion, "--out", layout)
	command.Dir = root
	command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "PROGRAMS="+i.programs, "ASKED="+asked)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	manifests, err := indexOf(layout)
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifests {
		platforms = append(platforms, m.Platform.OS+"/"+m.Platform.Architecture)
		if _, err := os.Stat(layout + "-sbom-" + m.Platform.Architecture + ".spdx.json"); err != nil {
			t.Error(err)
		}
	}
	compiled, err := os.ReadFile(asked)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"linux/amd64", "linux/arm64"}
	if !slices.Equal(platforms, want) || string(compiled) != "linux amd64 0\nlinux arm64 0\n" {
		t.Errorf("the index has %v, want %v; compiled were\n%s", platforms, want, compiled)
	}
}

// The programs in the image are static and know their version, and COMPONENT selects what the default program runs as.
func TestProgramsOfTheImage(t *testing.T) {
	i := built(t)
	for name, c := range map[string]struct {
		env, program, args, says string
	}{
		"its version":              {"", "multieni", "version", imageVersion},
		"its version by a flag":    {"", "multieni", "--version", imageVersion},
		"the controller's version": {"COMPONENT=eni-controller", "multieni", "--version", imageVersion},
		"the controller":           {"COMPONENT=eni-controller", "multieni", "--help", "Run the controller"},
		"the agent":                {"COMPONENT=eni-manager", "multieni", "--help", "Run the agent of a node"},
		"the agent's version":      {"COMPONENT=eni-manager", "multieni", "--version", imageVersion},
		"the agent by its program": {"", "eni-manager", "--help", "Run the agent of a node"},
		"a command beside them":    {"COMPONENT=eni-manager", "multieni", "version", imageVersion},
	} {
		t.Run(name, func(t *testing.T) {
			command := exec.CommandContext(t.Context(), i.program(c.program), c.args)
			command.Env = []string{c.env} // no variable of this machine
			out, err := command.CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.says) {
				t.Errorf("%v\n%s\nwant %q", err, out, c.says)
			}
		})
	}
}

// The bill of materials names what is in the programs.
func TestBillOfMaterials(t *testing.T) {
	i := built(t)
	content, err := os.ReadFile(i.layout + "-sbom-" + runtime.GOARCH + ".spdx.json")
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		SPDXVersion string `json:"spdxVersion"`
		Packages    []struct {
			Name    string `json:"name"`
			Version string `json:"versionInfo"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(content, &bill); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, p := range bill.Packages {
		versions[p.Name] = p.Version
	}
	for _, module := range []string{"stdlib", "sigs.k8s.io/controller-runtime", "github.com/aws/aws-sdk-go-v2/service/ec2", "github.com/vishvananda/netlink"} {
		if versions[module] == "" {
			t.Errorf("%s is in a program and not on the bill", module)
		}
	}
	if bill.SPDXVersion != "SPDX-2.3" || versions["github.com/multieni/multieni"] != imageVersion {
		t.Errorf("the bill is of %s %s", bill.SPDXVersion, versions["github.com/multieni/multieni"])
	}
}
