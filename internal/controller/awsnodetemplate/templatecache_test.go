// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsnodetemplate_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/internal/controller/awsnodetemplate"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// slowCloud delays the creation of the launch templates of a node template, and the answers to lists.
type slowCloud struct {
	*cloud
	creations, listings chan struct{}
	nodeTemplate        string
}

func (c slowCloud) CreateLaunchTemplate(ctx context.Context, p launchtemplate.NewTemplate) (string, []string, error) {
	if strings.Contains(p.Name, c.nodeTemplate) {
		<-c.creations
	}
	return c.cloud.CreateLaunchTemplate(ctx, p)
}

func (c slowCloud) LaunchTemplates(ctx context.Context, tags map[string]string) ([]launchtemplate.Existing, error) {
	listed, err := c.cloud.LaunchTemplates(ctx, tags)
	<-c.listings
	return listed, err
}

// setSlowStage returns a stage in which EC2 creates no launch template of node template "default" before creations is
// closed.
func setSlowStage(t *testing.T) (*stage, slowCloud) {
	slow := slowCloud{creations: make(chan struct{}), listings: make(chan struct{}, 1), nodeTemplate: "default"}
	s := setStage(t, declared(), func(o *awsnodetemplate.Options) {
		slow.cloud = o.EC2.(*cloud)
		o.EC2 = slow
	})
	return s, slow
}

func (s *stage) reconcileOne(name string) (done chan error) {
	done = make(chan error, 1)
	go func() {
		_, err := s.reconciler.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
		done <- err
	}()
	synctest.Wait()
	return done
}

func TestANodeTemplateDoesNotWaitForTheCallsOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, slow := setSlowStage(t)
		other := declared()
		other.Name, other.UID = "other", "uid-2"
		if err := s.kube.Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		close(slow.listings)
		first, second := s.reconcileOne("default"), s.reconcileOne("other")
		select {
		case err := <-second:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the other node template waits for a call that is not its own")
		}
		close(slow.creations)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

func TestAListingThatBeganBeforeACreationKeepsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, slow := setSlowStage(t)
		slow.listings <- struct{}{}
		first := s.reconcileOne("default")
		collected := make(chan error, 1)
		go func() { collected <- s.reconciler.CollectTemplates(t.Context()) }()
		synctest.Wait()
		close(slow.creations)
		synctest.Wait()
		close(slow.listings)
		for _, done := range []chan error{first, collected} {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if _, calls := s.reconcile(); len(calls) > 0 {
			t.Errorf("the launch template is created again: %q", calls)
		}
	})
}
