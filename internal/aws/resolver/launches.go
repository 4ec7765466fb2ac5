// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/base/cache"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

const (
	// typesTTL is how long the instance types of a region are cached; AWS rarely adds one.
	typesTTL = 24 * time.Hour
	// typesErrorTTL is how long the offline table is used before the next call to EC2.
	typesErrorTTL = 10 * time.Minute
	// instancesTTL is how long the images of instances are cached: they never change, but instances are added.
	instancesTTL = 10 * time.Minute
)

// LaunchReader is the part of EC2 that resolving a node template reads, in addition to subnets and groups. A missing
// resource is not an error, except for a launch template.
type LaunchReader interface {
	InstanceTypes(context.Context) ([]launchtemplate.InstanceType, error)
	Images(ctx context.Context, tags map[string]string) ([]launchtemplate.MachineImage, error)
	ImageByID(ctx context.Context, imageID string) (launchtemplate.MachineImage, error)
	LaunchTemplateVersion(ctx context.Context, templateID, name, version string) (launchtemplate.Version, error)
	// InstancesLaunchedFrom returns the version of a launch template that each instance was launched from.
	InstancesLaunchedFrom(ctx context.Context, templateID string) (map[string]int64, error)
	// ImagesOf returns the image that each instance with the tag was launched with.
	ImagesOf(ctx context.Context, tag, value string) (map[string]string, error)
}

// Source is a version of another program's launch template, and when it was read.
type Source struct {
	launchtemplate.Version
	ReadAt time.Time
}

// Launches resolves the resources that node templates name. It is safe for concurrent use.
type Launches struct {
	reader LaunchReader
	// follow is how long answers that can change by themselves are cached.
	follow  time.Duration
	now     func() time.Time
	types   *cache.Cache[[]launchtemplate.InstanceType]
	images  *cache.Cache[[]launchtemplate.MachineImage]
	sources *cache.Cache[Source]
	// instances are the versions of launch templates that instances were launched from.
	instances *cache.Cache[map[string]int64]
	// launched are the images that instances were launched with.
	launched *cache.Cache[map[string]string]
}

// NewLaunches returns a Launches with empty caches. follow is how long it caches answers that can change by themselves.
func NewLaunches(reader LaunchReader, follow time.Duration, now func() time.Time) *Launches {
	return &Launches{
		reader: reader, follow: follow, now: now,
		types: cache.New[[]launchtemplate.InstanceType](now), images: cache.New[[]launchtemplate.MachineImage](now),
		sources:   cache.New[Source](now),
		instances: cache.New[map[string]int64](now), launched: cache.New[map[string]string](now),
	}
}

// InstanceTypes returns the instance types of the region, or those of the offline table if EC2 denies the read.
func (l *Launches) InstanceTypes(ctx context.Context) ([]launchtemplate.InstanceType, error) {
	return l.types.Get(ctx, "", func(ctx context.Context) ([]launchtemplate.InstanceType, time.Duration, error) {
		types, err := l.reader.InstanceTypes(ctx)
		switch {
		case eni.ErrorClass(err) == eni.Unauthorized || err == nil && len(types) == 0:
			return launchtemplate.Offline(), typesErrorTTL, nil
		case err != nil:
			return nil, 0, err
		default:
			return types, typesTTL, nil
		}
	})
}

// Images returns the images with the tags, in any state.
func (l *Launches) Images(ctx context.Context, tags map[string]string) ([]launchtemplate.MachineImage, error) {
	return l.images.Get(ctx, fmt.Sprintf("%q", tags),
		func(ctx context.Context) ([]launchtemplate.MachineImage, time.Duration, error) {
			images, err := l.reader.Images(ctx, tags)
			return images, l.follow, err
		})
}

// ImageByID returns an image, and one without an ID if EC2 does not have it. It reads an image that cannot be launched
// from again after follow.
func (l *Launches) ImageByID(ctx context.Context, id string) (launchtemplate.MachineImage, error) {
	images, err := l.images.Get(ctx, id,
		func(ctx context.Context) ([]launchtemplate.MachineImage, time.Duration, error) {
			image, err := l.reader.ImageByID(ctx, id)
			keep := l.follow
			if image.Available() {
				keep = typesTTL
			}
			return []launchtemplate.MachineImage{image}, keep, err
		})
	if err != nil {
		return launchtemplate.MachineImage{}, err
	}
	return images[0], nil
}

// Source returns a version of a launch template, by ID or else by name. It reads an alias again after follow. A version
// number always names the same version while the template exists.
func (l *Launches) Source(ctx context.Context, templateID, name, version string) (Source, error) {
	return l.sources.Get(ctx, strings.Join([]string{templateID, name, version}, "\n"),
		func(ctx context.Context) (Source, time.Duration, error) {
			at := l.now()
			v, err := l.reader.LaunchTemplateVersion(ctx, templateID, name, version)
			return Source{v, at}, l.follow, err
		})
}

// InstancesOf returns, by instance, the version of another program's launch template that the instance was launched
// from.
func (l *Launches) InstancesOf(ctx context.Context, templateID string) (map[string]int64, error) {
	return l.instances.Get(ctx, templateID, func(ctx context.Context) (map[string]int64, time.Duration, error) {
		versions, err := l.reader.InstancesLaunchedFrom(ctx, templateID)
		return versions, l.follow, err
	})
}

// ImagesOf returns the image that each instance of a node template was launched with, by instance. Those that were
// launched in the last minutes may be missing.
func (l *Launches) ImagesOf(ctx context.Context, nodeTemplateUID string) (map[string]string, error) {
	return l.launched.Get(ctx, nodeTemplateUID, func(ctx context.Context) (map[string]string, time.Duration, error) {
		images, err := l.reader.ImagesOf(ctx, identity.TagNodeTemplateUID, nodeTemplateUID)
		return images, min(instancesTTL, 10*l.follow), err
	})
}
