// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/dev/child"
	"github.com/multieni/multieni/internal/dev/cluster"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// idleTime is a little longer than the period of our controller's resyncs.
const idleTime = 5*time.Minute + 10*time.Second

// Options select what to measure.
type Options struct {
	// Command is the command line of the controller; "" is our own, with its defaults.
	Command string
	// Nodes is the size of the fleet.
	Nodes int
	// Dir is the folder for logs. It must exist.
	Dir string
	// Progress receives lines about long steps before the first scenario.
	Progress io.Writer
	// Idle is the length of the idle scenario; 0 is long enough to include a resync.
	Idle time.Duration
}

// Rig is an API server, an EC2, a fleet and a controller.
type Rig struct {
	Options
	dir     string
	cluster *cluster.Cluster
	kube    client.WithWatch
	clock   *clock
	cloud   *awssim.Simulator
	server  *awssim.Server
	process *child.Process
	audit   audit
	stops   []func() error
	// speed is the speed of EC2 for which the controller was started.
	speed float64
	nodes []*corev1.Node
}

// Open starts the servers and creates the fleet, without a controller.
func Open(ctx context.Context, o Options) (*Rig, error) {
	if o.Idle == 0 {
		o.Idle = idleTime
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	r := &Rig{Options: o, dir: dir, clock: newClock(1), audit: audit{path: filepath.Join(dir, "audit.log")}}
	for _, step := range []func(context.Context) error{r.openCluster, r.openCloud, r.launch} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, nil
}

// Close ends everything.
func (r *Rig) Close() error {
	errs := []error{r.stop()}
	for n := len(r.stops) - 1; n >= 0; n-- {
		errs = append(errs, r.stops[n]())
	}
	return errors.Join(errs...)
}

func (r *Rig) openCluster(ctx context.Context) (err error) {
	// The lines of an earlier run would count.
	if err := os.Remove(r.audit.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	r.cluster, err = cluster.Start(ctx, cluster.Options{Dir: r.dir, Audit: r.audit.path, Progress: r.Progress})
	if err != nil {
		return err
	}
	r.stops = append(r.stops, r.cluster.Stop)
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	access := *r.cluster.Config
	access.QPS = -1
	r.kube, err = client.NewWithWatch(&access, client.Options{Scheme: scheme})
	return err
}

func (r *Rig) openCloud(ctx context.Context) (err error) {
	r.cloud, err = awssim.New(awssim.Options{World: bubble.World(), Behavior: new(ec2.LaggingBehavior()), Clock: r.clock,
		Seed: bubble.Seed})
	if err != nil {
		return err
	}
	r.server, err = awssim.Listen(context.WithoutCancel(ctx), "127.0.0.1:0", r.cloud)
	if err == nil {
		r.stops = append(r.stops, r.server.Close)
	}
	return err
}

// Version is that of the API server.
func (r *Rig) Version() (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(r.cluster.Config)
	if err != nil {
		return "", err
	}
	info, err := client.ServerVersion()
	if err != nil {
		return "", err
	}
	return info.GitVersion, nil
}

// alive returns an error if the controller has ended by itself.
func (r *Rig) alive() error {
	if r.process == nil {
		return errors.New("there is no controller")
	}
	select {
	case <-r.process.Exited():
		return fmt.Errorf("the controller ended by itself: %w\n%s", r.process.Err(), r.logs())
	default:
		return nil
	}
}

// await waits for a condition, until the context ends.
func (r *Rig) await(ctx context.Context, every time.Duration, what string, is func() bool) error {
	for begun := time.Now(); !is(); {
		if err := r.alive(); err != nil {
			return err
		}
		if time.Since(begun) > patience {
			return fmt.Errorf("after %s there is still not %s; the end of what the controller said:\n%s", patience,
				what, r.logs())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
	return nil
}
