// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsnodetemplate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/keymutex"

	"github.com/multieni/multieni/internal/base/cache"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// templateCache caches the cluster's launch templates in EC2. It has only those with our tags, and uses only those with
// our names.
type templateCache struct {
	ec2 EC2
	// references returns the users of launch templates, such as Auto Scaling groups.
	references func(context.Context) ([]launchtemplate.Reference, error)
	cluster    string
	// relist is how long a list stays valid.
	relist   time.Duration
	now      func() time.Time
	listings *cache.Cache[struct{}]
	// owners serializes the work on the launch templates of one node template, including calls to EC2. Work for another
	// node template does not wait for it.
	owners keymutex.KeyMutex

	// mu guards what follows. It is not held during calls to EC2.
	mu        sync.Mutex
	listedAt  time.Time
	templates map[string]cachedTemplate // by ID
}

// cachedTemplate is one launch template with its versions, which are read when a list has new ones.
type cachedTemplate struct {
	launchtemplate.Existing
	versions []launchtemplate.Version
	// unwanted is since when no object uses it, orphaned since when its node template does not exist.
	unwanted, orphaned time.Time
	// deleted reports whether this process deleted it. changedAt is when this process last changed it: a list that began
	// before does not have the change.
	deleted   bool
	changedAt time.Time
}

func newTemplateCache(o Options) *templateCache {
	return &templateCache{
		ec2: o.EC2, references: o.References, cluster: o.Cluster, relist: o.Relist, now: o.Now,
		listings: cache.New[struct{}](o.Now), owners: keymutex.NewHashed(0),
	}
}

// lock waits for other work on the launch templates of a node template, and returns the function that ends this work.
func (s *templateCache) lock(nodeTemplate string) (unlock func()) {
	s.owners.LockKey(nodeTemplate)
	return func() { _ = s.owners.UnlockKey(nodeTemplate) }
}

// of returns the launch templates of a node template by name, with their versions. The name of the node template
// identifies it, because it is unique in the cluster.
func (s *templateCache) of(ctx context.Context, nodeTemplate string) ([]cachedTemplate, error) {
	if err := s.list(ctx); err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(s.all(), func(k cachedTemplate) bool {
		return k.NodeTemplate(s.cluster) != nodeTemplate
	})
	for n := range found {
		if err := s.read(ctx, &found[n]); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b cachedTemplate) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}

// all returns the launch templates of the last list, with this process's changes since.
func (s *templateCache) all() []cachedTemplate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Values(s.templates)), func(k cachedTemplate) bool { return k.deleted })
}

// store stores a launch template.
func (s *templateCache) store(k cachedTemplate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.templates[k.ID] = k
}

// storeChanged stores a launch template that this process changed in EC2.
func (s *templateCache) storeChanged(k cachedTemplate) {
	k.changedAt = s.now()
	s.store(k)
}

// read reads the versions of a launch template, unless they are known.
func (s *templateCache) read(ctx context.Context, k *cachedTemplate) (err error) {
	if k.versions != nil {
		return nil
	}
	k.versions, err = s.ec2.LaunchTemplateVersions(ctx, k.ID)
	if err == nil {
		s.store(*k)
	}
	return err
}

const allTemplates = "all"

// list lists the launch templates in EC2, unless the last list is new enough.
func (s *templateCache) list(ctx context.Context) error {
	_, err := s.listings.Get(ctx, allTemplates, func(ctx context.Context) (struct{}, time.Duration, error) {
		at := s.now()
		listed, err := s.ec2.LaunchTemplates(ctx, map[string]string{identity.TagCluster: s.cluster})
		if err == nil {
			s.merge(at, listed)
		}
		return struct{}{}, s.relist, err
	})
	return err
}

// merge merges a list that began at the given time.
func (s *templateCache) merge(at time.Time, listed []launchtemplate.Existing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Before(s.listedAt) {
		return
	}
	templates := map[string]cachedTemplate{}
	for _, e := range listed {
		k := cachedTemplate{Existing: e}
		if was, is := s.templates[e.ID]; is {
			k.unwanted, k.orphaned = was.unwanted, was.orphaned
			if was.Latest == e.Latest {
				k.versions = was.versions
			}
		}
		templates[e.ID] = k
	}
	for id, was := range s.templates {
		if !was.changedAt.Before(at) {
			templates[id] = was
		}
	}
	s.templates, s.listedAt = templates, at
}

// relistNext makes the next use of the cache list the launch templates again.
func (s *templateCache) relistNext() { s.listings.Forget(allTemplates) }

// version returns the version of a launch template with the hash.
func (s *templateCache) version(
	ctx context.Context, nodeTemplate, templateID, hash string,
) (launchtemplate.Version, bool, error) {
	defer s.lock(nodeTemplate)()
	all, err := s.of(ctx, nodeTemplate)
	if err != nil {
		return launchtemplate.Version{}, false, err
	}
	for _, k := range all {
		if k.ID == templateID || templateID == "" {
			if v, is := launchtemplate.Find(k.versions, hash); is {
				return v, true, nil
			}
		}
	}
	return launchtemplate.Version{}, false, nil
}

// put returns the version with the content of the template. It creates the version if there is none.
func (s *templateCache) put(
	ctx context.Context, t launchtemplate.NodeTemplate, name string, template launchtemplate.Template,
) (v launchtemplate.Version, warnings []string, err error) {
	defer s.lock(t.Name)()
	all, err := s.of(ctx, t.Name)
	if err != nil {
		return v, nil, err
	}
	at := slices.IndexFunc(all, func(k cachedTemplate) bool { return k.Name == name })
	if at < 0 {
		return s.create(ctx, t, name, template)
	}
	k, err := s.claim(ctx, t, all[at])
	if err != nil {
		return v, nil, err
	}
	if v, is := launchtemplate.Find(k.versions, template.Hash); is {
		return v, nil, nil
	}
	var number int64
	err = s.withToken(template.Hash, func(token string) (err error) {
		number, warnings, err = s.ec2.CreateLaunchTemplateVersion(ctx, token, k.ID, template.Hash, template.Data)
		return err
	})
	if eni.ErrorClass(err) == eni.NotFound {
		s.relistNext() // another program deleted it
	}
	if err != nil {
		return v, nil, err
	}
	v = s.created(k.ID, number, template)
	k.Latest = max(k.Latest, number)
	k.versions = append(slices.Clone(k.versions), v)
	s.storeChanged(k)
	return v, warnings, nil
}

func (s *templateCache) create(
	ctx context.Context, t launchtemplate.NodeTemplate, name string, template launchtemplate.Template,
) (v launchtemplate.Version, warnings []string, err error) {
	var id string
	tags := t.Identity()
	err = s.withToken(template.Hash, func(token string) (err error) {
		id, warnings, err = s.ec2.CreateLaunchTemplate(ctx,
			launchtemplate.NewTemplate{Token: token, Name: name, Hash: template.Hash, Data: template.Data, Tags: tags})
		return err
	})
	if err != nil {
		return v, nil, err
	}
	v = s.created(id, 1, template)
	s.storeChanged(cachedTemplate{Existing: launchtemplate.Existing{ID: id, Name: name, Tags: tags, Latest: 1},
		versions: []launchtemplate.Version{v}})
	return v, warnings, nil
}

// withToken makes a call with the hash as its client token, so that the call can be repeated if its answer is lost. EC2
// refuses the token after another program deleted the resource: withToken then adds the time to the token.
func (s *templateCache) withToken(hash string, call func(token string) error) error {
	err := call(hash)
	if eni.ErrorClass(err) == eni.IdempotencyMismatch {
		err = call(fmt.Sprintf("%s-%d", hash, s.now().Unix()))
	}
	return err
}

// claim returns a launch template with the node template's tags. It writes the tags if the launch template belonged to
// a predecessor.
func (s *templateCache) claim(
	ctx context.Context, t launchtemplate.NodeTemplate, k cachedTemplate,
) (cachedTemplate, error) {
	if k.Tags[identity.TagNodeTemplateUID] == t.UID {
		return k, nil
	}
	if err := s.ec2.PutTags(ctx, k.ID, t.Identity()); err != nil {
		return k, err
	}
	k.Tags, k.orphaned = t.Identity(), time.Time{}
	s.storeChanged(k)
	return k, nil
}

func (s *templateCache) created(id string, number int64, template launchtemplate.Template) launchtemplate.Version {
	return launchtemplate.Version{
		TemplateID: id, Number: number, Description: launchtemplate.Describe(template.Hash), CreatedAt: s.now(),
		Data: launchtemplate.Readable(template.Data),
	}
}

// collect deletes launch templates and versions that are neither current nor in use, after [launchtemplate.KeepFor].
func (s *templateCache) collect(
	ctx context.Context, nodeTemplate string, current map[string]int64, inUse func(hash string) bool,
) error {
	defer s.lock(nodeTemplate)()
	all, err := s.of(ctx, nodeTemplate)
	if err != nil {
		return err
	}
	for _, k := range all {
		number, isCurrent := current[k.ID]
		switch {
		case isCurrent || slices.ContainsFunc(k.versions, func(v launchtemplate.Version) bool { return inUse(v.Hash()) }):
			if !k.unwanted.IsZero() {
				k.unwanted = time.Time{}
				s.store(k)
			}
			if isCurrent {
				err = s.retire(ctx, k, number, inUse)
			}
		case k.unwanted.IsZero():
			k.unwanted = s.now()
			s.store(k)
		case s.now().Sub(k.unwanted) >= launchtemplate.KeepFor:
			err = s.dispose(ctx, k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dispose deletes a launch template without referrers. If it has one, its time to live starts again.
func (s *templateCache) dispose(ctx context.Context, k cachedTemplate) error {
	referrers, err := s.referrers(ctx, k)
	if err != nil {
		return err
	}
	if len(referrers) > 0 {
		k.unwanted = s.now()
		s.store(k)
		return nil
	}
	return s.remove(ctx, k)
}

// errReferrersUnknown means that the users of a launch template cannot be read.
var errReferrersUnknown = errors.New("it is not known which Auto Scaling groups and fleets launch from it; allow " +
	"autoscaling:DescribeAutoScalingGroups, ec2:DescribeFleets and ec2:DescribeSpotFleetRequests")

// referrers returns the users of the launch template. It reads them only before a deletion.
func (s *templateCache) referrers(ctx context.Context, k cachedTemplate) ([]launchtemplate.Reference, error) {
	all, err := s.references(ctx)
	if err != nil {
		return nil, fmt.Errorf("launch template %s is kept: %w: %w", k.Name, errReferrersUnknown, err)
	}
	return slices.DeleteFunc(all, func(r launchtemplate.Reference) bool { return !r.To(k.Existing) }), nil
}

func (s *templateCache) retire(
	ctx context.Context, k cachedTemplate, current int64, inUse func(hash string) bool,
) error {
	retired := launchtemplate.Prunable(k.versions, current, inUse, s.now())
	if len(retired) == 0 {
		return nil
	}
	referrers, err := s.referrers(ctx, k)
	if err != nil {
		return err
	}
	retired = slices.DeleteFunc(retired, func(number int64) bool {
		return slices.ContainsFunc(referrers, func(r launchtemplate.Reference) bool {
			return r.Version == strconv.FormatInt(number, 10)
		})
	})
	if len(retired) == 0 {
		return nil
	}
	if err := s.ec2.DeleteLaunchTemplateVersions(ctx, k.ID, retired); err != nil {
		return err
	}
	k.versions = slices.DeleteFunc(slices.Clone(k.versions), func(v launchtemplate.Version) bool {
		return slices.Contains(retired, v.Number)
	})
	s.storeChanged(k)
	return nil
}

func (s *templateCache) remove(ctx context.Context, k cachedTemplate) error {
	if err := s.ec2.DeleteLaunchTemplate(ctx, k.ID); err != nil {
		return fmt.Errorf("delete launch template %s: %w", k.Name, err)
	}
	k.deleted = true
	s.storeChanged(k)
	return nil
}

// clear deletes all launch templates of a node template. If one of them has referrers, it deletes none and returns
// them.
func (s *templateCache) clear(
	ctx context.Context, nodeTemplate string,
) (referrers []launchtemplate.Reference, err error) {
	defer s.lock(nodeTemplate)()
	s.relistNext() // clear would leave behind launch templates that are not in the cache
	all, err := s.of(ctx, nodeTemplate)
	if err != nil {
		return nil, err
	}
	for _, k := range all {
		some, err := s.referrers(ctx, k)
		if err != nil {
			return nil, err
		}
		referrers = append(referrers, some...)
	}
	if len(referrers) > 0 {
		return referrers, nil
	}
	for _, k := range all {
		if err := s.remove(ctx, k); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// sweep deletes the launch templates that a node template left behind, because a user removed its finalizer by hand. It
// deletes only old ones that it found twice without a node template, and that no instance runs from.
func (s *templateCache) sweep(
	ctx context.Context, exists func(nodeTemplate string) bool, running func(nodeTemplateUID string) bool,
) error {
	s.relistNext()
	if err := s.list(ctx); err != nil {
		return err
	}
	all := s.all()
	slices.SortFunc(all, func(a, b cachedTemplate) int { return cmp.Compare(a.ID, b.ID) })
	for _, k := range all {
		name := k.NodeTemplate(s.cluster)
		if err := s.sweepOne(ctx, k.ID, name, name == "" || exists(name) ||
			running(k.Tags[identity.TagNodeTemplateUID])); err != nil {
			return err
		}
	}
	return nil
}

// sweepOne deletes a launch template if it is an orphan. It waits for other work on the launch templates of the node
// template before it reads the cache.
func (s *templateCache) sweepOne(ctx context.Context, id, nodeTemplate string, wanted bool) error {
	defer s.lock(nodeTemplate)()
	s.mu.Lock()
	k, is := s.templates[id]
	s.mu.Unlock()
	switch {
	case !is || k.deleted:
		return nil
	case wanted && k.orphaned.IsZero():
		return nil
	case wanted:
		k.orphaned = time.Time{}
		s.store(k)
		return nil
	case k.orphaned.IsZero():
		k.orphaned = s.now()
		s.store(k)
		return nil
	}
	if err := s.read(ctx, &k); err != nil {
		return err
	}
	if launchtemplate.IsOrphaned(k.versions, k.orphaned, s.now()) {
		return s.dispose(ctx, k)
	}
	return nil
}
