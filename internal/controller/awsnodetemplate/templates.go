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

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// templateVersion is a version of a launch template to launch from.
type templateVersion struct {
	launchtemplate.Template
	name, id string
	version  int64
}

// maxPublishAttempts is how many instance types EC2 is asked about before its refusal is believed: not every zone has
// every type.
const maxPublishAttempts = 3

// choices are the subnets that the published versions name.
func (r *Reconciler) choices(ctx context.Context, object *v1alpha1.AWSNodeTemplate) (launchtemplate.Choices, error) {
	choices := launchtemplate.Choices{}
	for _, p := range object.Status.LaunchTemplates {
		if p.Zone == "" {
			continue
		}
		version, is, err := r.shelf.version(ctx, object.Name, p.ID, p.ContentHash)
		if err != nil {
			return nil, err
		}
		if is {
			choices[p.Zone] = launchtemplate.ChosenSubnets(version.Data)
		}
	}
	return choices, nil
}

// publish makes the versions that are not there yet, and offers those from which EC2 would launch. Where it would not,
// the version that was offered before stays.
func (r *Reconciler) publish(ctx context.Context, object *v1alpha1.AWSNodeTemplate, f *facts) error {
	for _, template := range f.rendering.Templates {
		name := f.template.TemplateName(template)
		before := slices.IndexFunc(object.Status.LaunchTemplates, func(p v1alpha1.PublishedTemplate) bool { return p.Name == name })
		version, warnings, err := r.shelf.put(ctx, f.template, name, template)
		if fault := refusal(err); fault != nil {
			f.refusal = fmt.Errorf("EC2 does not take launch template %s: %w", name, fault)
			continue
		}
		if err != nil {
			return fmt.Errorf("publish launch template %s: %w", name, err)
		}
		f.warnings = append(f.warnings, warnings...)
		made := templateVersion{template, name, version.TemplateID, version.Number}
		if before < 0 || object.Status.LaunchTemplates[before].ID != made.id || object.Status.LaunchTemplates[before].Version != made.version {
			err = r.try(ctx, f, made)
		}
		missing := eni.ErrorClass(err) == eni.NotFound
		switch {
		case missing && f.now.Sub(version.CreatedAt) < settled:
			f.unseen = true
			continue
		case missing || refusal(err) != nil:
			f.refusal = fmt.Errorf("EC2 would not launch from version %d of launch template %s: %w", made.version, name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("try launch template %s: %w", name, err)
		}
		f.offers = append(f.offers, made)
	}
	return nil
}

// settled is after what time EC2 shows everywhere what was made (EC2 API reference, "Eventual consistency").
const settled = time.Minute

// refusal returns the error if EC2's decision is final, and nil when the same request may succeed later.
func refusal(err error) error {
	switch eni.ErrorClass(err) {
	case eni.Throttled, eni.Transient, eni.NotFound, "":
		return nil
	default:
		return err
	}
}

// try has EC2 say whether it would launch. Where it may not be asked, that is a warning: a launch needs permissions
// that the controller need not have.
func (r *Reconciler) try(ctx context.Context, f *facts, o templateVersion) error {
	subnet := ""
	if o.Zone == "" {
		subnet = anySubnet(f.rendering.Zones)
	}
	var first error
	tried := 0
	for _, v := range f.rendering.Types {
		if !v.Eligible() || v.Shape != o.Shape || tried == maxPublishAttempts {
			continue
		}
		tried++
		err := r.EC2.DryRunLaunch(ctx, launchtemplate.DryRun{TemplateID: o.id, Version: o.version, Data: o.Data, InstanceType: v.Name, SubnetID: subnet})
		switch {
		case err == nil:
			return nil
		case eni.ErrorClass(err) == eni.Unauthorized:
			f.warnings = append(f.warnings, notDryRun+"the controller may not ask EC2 whether it would launch: "+err.Error())
			return nil
		case first == nil:
			first = err
		}
	}
	return first
}

// anySubnet returns a subnet to try a launch in: of a zone with room, if there is one.
func anySubnet(zones []launchtemplate.ZoneVerdict) string {
	some := ""
	for _, z := range zones {
		for _, ids := range z.Subnets {
			if z.Eligible && len(ids) > 0 {
				return ids[0]
			}
			if len(ids) > 0 {
				some = ids[0]
			}
		}
	}
	return some
}

// collect deletes the launch templates and versions of the node template that nothing refers to any more, after a
// while.
func (r *Reconciler) collect(ctx context.Context, f facts) error {
	launched := r.Observer.LaunchedFrom(f.template.UID)
	hashes := map[string]bool{}
	for _, interfaces := range launched {
		hashes[launchtemplate.HashOf(interfaces)] = true
	}
	current := map[string]int64{}
	for _, o := range f.offers {
		current[o.id] = o.version
	}
	return r.shelf.collect(ctx, f.template.Name, current, func(hash string) bool { return hashes[hash] })
}

// templateCache is what is known of the cluster's launch templates in EC2. Only those with our tags are ever on it.
type templateCache struct {
	ec2 EC2
	// references are those of others to launch templates.
	references func(context.Context) ([]launchtemplate.Reference, error)
	cluster    string
	// fresh is for how long a list is used.
	fresh time.Duration
	now   func() time.Time

	mu        sync.Mutex
	listedAt  time.Time
	templates map[string]*kept // by ID
}

// kept is one launch template with its versions, which are read when the listing shows new ones.
type kept struct {
	launchtemplate.Existing
	versions []launchtemplate.Version
	// unwanted is since when no object uses it, orphaned since when its node template does not exist.
	unwanted, orphaned time.Time
}

// of returns the launch templates of a node template. The name identifies them, because it is unique in the cluster.
func (s *templateCache) of(ctx context.Context, nodeTemplate string) ([]*kept, error) {
	if s.now().Sub(s.listedAt) >= s.fresh {
		if err := s.list(ctx); err != nil {
			return nil, err
		}
	}
	var all []*kept
	for _, k := range s.templates {
		if k.Tags[identity.TagNodeTemplate] != nodeTemplate {
			continue
		}
		if err := s.read(ctx, k); err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *kept) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// read reads the versions of a launch template, unless they are known.
func (s *templateCache) read(ctx context.Context, k *kept) (err error) {
	if k.versions == nil {
		k.versions, err = s.ec2.LaunchTemplateVersions(ctx, k.ID)
	}
	return err
}

func (s *templateCache) list(ctx context.Context) error {
	at := s.now()
	listed, err := s.ec2.LaunchTemplates(ctx, map[string]string{identity.TagCluster: s.cluster})
	if err != nil {
		return err
	}
	templates := map[string]*kept{}
	for _, e := range listed {
		k := &kept{Existing: e}
		if was := s.templates[e.ID]; was != nil {
			k.unwanted, k.orphaned = was.unwanted, was.orphaned
			if was.Latest == e.Latest {
				k.versions = was.versions
			}
		}
		templates[e.ID] = k
	}
	s.templates, s.listedAt = templates, at
	return nil
}

// version returns the version of a launch template with the hash.
func (s *templateCache) version(ctx context.Context, nodeTemplate, templateID, hash string) (launchtemplate.Version, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// put returns the version that says what the template says, made now if it is not there.
func (s *templateCache) put(ctx context.Context, t launchtemplate.NodeTemplate, name string, template launchtemplate.Template) (v launchtemplate.Version, warnings []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.of(ctx, t.Name)
	if err != nil {
		return v, nil, err
	}
	at := slices.IndexFunc(all, func(k *kept) bool { return k.Name == name })
	if at < 0 {
		return s.create(ctx, t, name, template)
	}
	k := all[at]
	if err := s.claim(ctx, t, k); err != nil {
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
		s.listedAt = time.Time{} // another program deleted it
	}
	if err != nil {
		return v, nil, err
	}
	v = s.made(k.ID, number, template)
	k.Latest = max(k.Latest, number)
	k.versions = append(k.versions, v)
	return v, warnings, nil
}

func (s *templateCache) create(ctx context.Context, t launchtemplate.NodeTemplate, name string, template launchtemplate.Template) (v launchtemplate.Version, warnings []string, err error) {
	var id string
	tags := t.Identity()
	err = s.withToken(template.Hash, func(token string) (err error) {
		id, warnings, err = s.ec2.CreateLaunchTemplate(ctx, launchtemplate.NewTemplate{Token: token, Name: name, Hash: template.Hash, Data: template.Data, Tags: tags})
		return err
	})
	if err != nil {
		return v, nil, err
	}
	v = s.made(id, 1, template)
	s.templates[id] = &kept{Existing: launchtemplate.Existing{ID: id, Name: name, Tags: tags, Latest: 1}, versions: []launchtemplate.Version{v}}
	return v, warnings, nil
}

// withToken makes a call with the hash as its client token, so that the call can be repeated when its answer is lost.
// EC2 refuses the token after another program deleted what the call made: withToken then adds the time to the token.
func (s *templateCache) withToken(hash string, call func(token string) error) error {
	err := call(hash)
	if eni.ErrorClass(err) == eni.IdempotencyMismatch {
		err = call(fmt.Sprintf("%s-%d", hash, s.now().Unix()))
	}
	return err
}

// claim makes a launch template ours that belonged to a predecessor of the node template.
func (s *templateCache) claim(ctx context.Context, t launchtemplate.NodeTemplate, k *kept) error {
	if k.Tags[identity.TagNodeTemplateUID] == t.UID {
		return nil
	}
	if err := s.ec2.PutTags(ctx, k.ID, t.Identity()); err != nil {
		return err
	}
	k.Tags = t.Identity()
	return nil
}

func (s *templateCache) made(id string, number int64, template launchtemplate.Template) launchtemplate.Version {
	return launchtemplate.Version{
		TemplateID: id, Number: number, Description: launchtemplate.Describe(template.Hash), CreatedAt: s.now(), Data: launchtemplate.Readable(template.Data),
	}
}

// collect deletes what is neither current nor in use, after [launchtemplate.KeepFor].
func (s *templateCache) collect(ctx context.Context, nodeTemplate string, current map[string]int64, inUse func(hash string) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.of(ctx, nodeTemplate)
	if err != nil {
		return err
	}
	for _, k := range all {
		if number, wanted := current[k.ID]; wanted {
			k.unwanted = time.Time{}
			if err := s.retire(ctx, k, number, inUse); err != nil {
				return err
			}
			continue
		}
		switch {
		case slices.ContainsFunc(k.versions, func(v launchtemplate.Version) bool { return inUse(v.Hash()) }):
			k.unwanted = time.Time{}
		case k.unwanted.IsZero():
			k.unwanted = s.now()
		case s.now().Sub(k.unwanted) >= launchtemplate.KeepFor:
			if err := s.dispose(ctx, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// dispose deletes a launch template without referrers. If it has one, its time to live starts again.
func (s *templateCache) dispose(ctx context.Context, k *kept) error {
	referrers, err := s.referrers(ctx, k)
	if err != nil {
		return err
	}
	if len(referrers) > 0 {
		k.unwanted = s.now()
		return nil
	}
	return s.remove(ctx, k)
}

// errReferrersUnknown means that the users of a launch template cannot be read.
var errReferrersUnknown = errors.New("it is not known which Auto Scaling groups and fleets launch from it; allow " +
	"autoscaling:DescribeAutoScalingGroups, ec2:DescribeFleets and ec2:DescribeSpotFleetRequests")

// referrers returns the users of the launch template. It reads them only before a deletion.
func (s *templateCache) referrers(ctx context.Context, k *kept) ([]launchtemplate.Reference, error) {
	all, err := s.references(ctx)
	if err != nil {
		return nil, fmt.Errorf("launch template %s is kept: %w: %w", k.Name, errReferrersUnknown, err)
	}
	return slices.DeleteFunc(all, func(r launchtemplate.Reference) bool { return !r.To(k.Existing) }), nil
}

func (s *templateCache) retire(ctx context.Context, k *kept, current int64, inUse func(hash string) bool) error {
	retired := launchtemplate.Prunable(k.versions, current, inUse, s.now())
	if len(retired) == 0 {
		return nil
	}
	referrers, err := s.referrers(ctx, k)
	if err != nil {
		return err
	}
	retired = slices.DeleteFunc(retired, func(number int64) bool {
		return slices.ContainsFunc(referrers, func(r launchtemplate.Reference) bool { return r.Version == strconv.FormatInt(number, 10) })
	})
	if len(retired) == 0 {
		return nil
	}
	if err := s.ec2.DeleteLaunchTemplateVersions(ctx, k.ID, retired); err != nil {
		return err
	}
	k.versions = slices.DeleteFunc(k.versions, func(v launchtemplate.Version) bool { return slices.Contains(retired, v.Number) })
	return nil
}

func (s *templateCache) remove(ctx context.Context, k *kept) error {
	if err := s.ec2.DeleteLaunchTemplate(ctx, k.ID); err != nil {
		return fmt.Errorf("delete launch template %s: %w", k.Name, err)
	}
	delete(s.templates, k.ID)
	return nil
}

// clear deletes all launch templates of a node template. If one of them has referrers, it deletes none and returns
// them.
func (s *templateCache) clear(ctx context.Context, nodeTemplate string) (referrers []launchtemplate.Reference, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listedAt = time.Time{} // what is not on the shelf would be left behind
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

// sweep deletes the launch templates whose node template is gone and did not take them along, as one does whose
// finalizer was taken off by hand. They go once they are old and were seen so twice, and while nothing that runs comes
// from them.
func (s *templateCache) sweep(ctx context.Context, there func(nodeTemplate string) bool, running func(nodeTemplateUID string) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.list(ctx); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(s.templates)) {
		k := s.templates[id]
		if name := k.Tags[identity.TagNodeTemplate]; name == "" || there(name) || running(k.Tags[identity.TagNodeTemplateUID]) {
			k.orphaned = time.Time{}
			continue
		}
		if k.orphaned.IsZero() {
			k.orphaned = s.now()
			continue
		}
		if err := s.read(ctx, k); err != nil {
			return err
		}
		if launchtemplate.IsOrphaned(k.versions, k.orphaned, s.now()) {
			if err := s.dispose(ctx, k); err != nil {
				return err
			}
		}
	}
	return nil
}
