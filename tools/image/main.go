// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command image builds the container images of multieni and awssim without a container engine: an index of one image per
// architecture, each with static programs and no base image, and a software bill of materials. It writes an OCI layout,
// and pushes it with --push. Run it from the root of the checkout.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// settings are the flags of the command.
type settings struct {
	out, version, push, of string
	arches                 []string
	// made is the time that goes into the image, the same for the same source.
	made time.Time
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var s settings
	arches := flag.String("arch", "amd64,arm64", "architectures, separated by commas")
	flag.StringVar(&s.out, "out", "dist/image", "folder to write the OCI layout to; replaced if it exists")
	flag.StringVar(&s.version, "version", "devel", "version of the programs")
	flag.StringVar(&s.push, "push", "",
		"reference to push the image to, for example ghcr.io/multieni/multieni:v0.1.0; not pushed if empty")
	flag.StringVar(&s.of, "of", "multieni", "image to build: multieni, or awssim for the simulated AWS")
	flag.Parse()
	s.arches = strings.Split(*arches, ",")
	if err := s.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func (s settings) run(ctx context.Context) error {
	if len(s.programs()) == 0 {
		return fmt.Errorf("--of is %q, and must be multieni or awssim", s.of)
	}
	made, err := commitTime(ctx)
	if err != nil {
		return err
	}
	s.made = made
	if err := os.RemoveAll(s.out); err != nil {
		return err
	}
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range s.arches {
		image, err := s.image(ctx, arch)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		index = mutate.AppendManifests(index,
			mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform(arch)}})
	}
	if _, err := layout.Write(s.out, index); err != nil {
		return fmt.Errorf("write the layout: %w", err)
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Println(digest)
	return s.upload(ctx, index)
}

func platform(arch string) *v1.Platform { return &v1.Platform{OS: "linux", Architecture: arch} }

// image builds the image of one architecture and says how large it is.
func (s settings) image(ctx context.Context, arch string) (v1.Image, error) {
	folder := filepath.Join(s.out+"-programs", arch)
	if err := s.build(ctx, arch, folder); err != nil {
		return nil, err
	}
	layer, err := programLayer(folder, s.programs(), s.made)
	if err != nil {
		return nil, err
	}
	size, err := layer.Size()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "linux/%s: %.1f MB compressed\n", arch, float64(size)/1e6)
	image := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return nil, err
	}
	image, err = mutate.ConfigFile(image, s.config(image, arch))
	if err != nil {
		return nil, err
	}
	return image, writeBill(folder, s.programs(), s.version, s.made, s.out+"-sbom-"+arch+".spdx.json")
}

// config is the configuration of the image. It runs as an unprivileged user without a name; an argument or the
// environment variable COMPONENT selects the component.
func (s settings) config(image v1.Image, arch string) *v1.ConfigFile {
	config := &v1.ConfigFile{
		Architecture: arch, OS: "linux", Created: v1.Time{Time: s.made},
		Config: v1.Config{
			Entrypoint: []string{"/" + s.programs()[0]}, User: "65532:65532", WorkingDir: "/",
			Labels: map[string]string{
				"org.opencontainers.image.title": s.of, "org.opencontainers.image.version": s.version,
				"org.opencontainers.image.licenses": "Apache-2.0",
				"org.opencontainers.image.source":   "https://github.com/multieni/multieni",
			},
		},
	}
	if current, err := image.ConfigFile(); err == nil {
		config.RootFS = current.RootFS
	}
	return config
}

// programs are what is in the image, by their packages, the one that it runs first. Agents run a program of their own,
// which is small, because every node of a cluster pays for its memory. The simulated AWS, which starts programs on request,
// has an image of its own, so that no cluster has it.
func (s settings) programs() []string {
	return map[string][]string{
		"multieni": {"multieni", "eni-manager", "multieni-cni"},
		"awssim":   {"awssim"},
	}[s.of]
}

func (s settings) build(ctx context.Context, arch, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	flags := "-s -w -X github.com/multieni/multieni/internal/base/version.release=" + s.version
	// The programs contain no code that calls methods by name (net/rpc of Lambda's library, the traces of gRPC's). The
	// linker can therefore drop all methods without a call: a third of the image.
	arguments := []string{"build", "-trimpath", "-tags", "lambda.norpc,grpcnotrace", "-ldflags", flags, "-o", folder}
	for _, program := range s.programs() {
		arguments = append(arguments, "./cmd/"+program)
	}
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("build the programs: %w", err)
	}
	return nil
}

// upload pushes the image with the credentials of the Docker configuration.
func (s settings) upload(ctx context.Context, index v1.ImageIndex) error {
	if s.push == "" {
		return nil
	}
	reference, err := name.ParseReference(s.push)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(reference, index, remote.WithContext(ctx),
		remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push to %s: %w", s.push, err)
	}
	return nil
}

// commitTime is the time of the last commit, so that building it again gives the same image.
func commitTime(ctx context.Context) (time.Time, error) {
	out, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%cI").Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time of the last commit: %w", err)
	}
	return time.Parse(time.RFC3339, strings.TrimSpace(string(out)))
}
