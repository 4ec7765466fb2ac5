// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// Existing is a launch template that EC2 has.
type Existing struct {
	ID, Name string
	Tags     map[string]string
	// Latest is the number of its newest version.
	Latest int64
}

// NodeTemplate returns the name of the node template of a cluster that a launch template was created for; "" if
// multieni did not create it. Other programs can copy tags, but EC2 has no call that changes the name of a launch
// template (EC2 API reference, "ModifyLaunchTemplate").
func (e Existing) NodeTemplate(cluster string) string {
	rest, created := strings.CutPrefix(e.Name, namesOf(cluster))
	if !created {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// NewTemplate is a launch template to create, with its first version.
type NewTemplate struct {
	// Token is the client token of the request; none if empty.
	Token string
	Name  string
	// Hash of the data; it goes into the version's description.
	Hash string
	Data Document
	Tags map[string]string
}

// DryRun is a launch that EC2 checks but does not execute.
type DryRun struct {
	TemplateID string
	Version    int64
	// Data is the data of the version.
	Data         Document
	InstanceType string
	// SubnetID is the subnet of the launch if the data names none.
	SubnetID string
}

// Version is one version of a launch template. Data is as EC2 has it, user data decoded.
type Version struct {
	TemplateID  string
	Number      int64
	Description string
	CreatedAt   time.Time
	Data        Document
}

// Reference is a user of a launch template version: it launches instances from the version, or can do so later.
type Reference struct {
	// By names the user, for messages.
	By string
	// TemplateID or TemplateName identifies the template. Version is a number, $Latest or $Default; empty means
	// $Default.
	TemplateID, TemplateName, Version string
}

// To reports whether the reference is to a version of the launch template.
func (r Reference) To(e Existing) bool {
	return r.TemplateID == e.ID || r.TemplateID == "" && r.TemplateName == e.Name
}

// describe begins the description of every version of ours.
const describe = "multieni "

// Describe returns the description of a version with the hash.
func Describe(hash string) string { return describe + hash }

// Hash returns the hash of a version of ours, and "" for any other.
func (v Version) Hash() string {
	hash, ours := strings.CutPrefix(v.Description, describe)
	if !ours {
		return ""
	}
	return hash
}

// Find returns the newest version with the hash.
func Find(versions []Version, hash string) (found Version, is bool) {
	for _, v := range versions {
		if v.Hash() == hash && v.Number > found.Number {
			found, is = v, true
		}
	}
	return found, is
}

// ChosenSubnets returns the subnets that the data names, by slot: the choices to keep (see [Choices]).
func ChosenSubnets(data Document) map[eni.Slot]string {
	chosen := map[eni.Slot]string{}
	for _, i := range data.objects(mInterfaces) {
		if id := text(i["SubnetId"]); id != "" {
			chosen[slotOf(i)] = id
		}
	}
	return chosen
}

// Identity is what tells the launch templates of a node template from all others.
func (t NodeTemplate) Identity() map[string]string {
	return map[string]string{
		identity.TagCluster: t.Cluster, identity.TagNodeTemplate: t.Name, identity.TagNodeTemplateUID: t.UID,
		identity.TagName: t.Name,
	}
}

const (
	// KeepVersions is the number of versions of a launch template that are kept regardless of their age, so that a user
	// can go back to them.
	KeepVersions = 10
	// KeepFor is how long a launch template, or a version, is kept without references: a launch in flight and a group that
	// is changed later can use it without a reference that we see.
	KeepFor = 24 * time.Hour
	// OrphanGrace is the minimum time between two reads of a launch template whose node template does not exist.
	OrphanGrace = time.Hour
)

// IsOrphaned reports whether a launch template whose node template does not exist can be deleted: an earlier read, at
// least OrphanGrace ago, had the same result, and none of its versions is new.
func IsOrphaned(versions []Version, seen, now time.Time) bool {
	return !seen.IsZero() && now.Sub(seen) >= OrphanGrace && !slices.ContainsFunc(versions, func(v Version) bool {
		return now.Sub(v.CreatedAt) < KeepFor
	})
}

// Prunable returns the versions that can be deleted: old versions that no instance was launched from, and that nothing
// launches from now or soon. The first version is the default version, which EC2 does not delete.
func Prunable(versions []Version, current int64, inUse func(hash string) bool, now time.Time) []int64 {
	ordered := slices.SortedFunc(slices.Values(versions), func(a, b Version) int { return int(b.Number - a.Number) })
	var retired []int64
	for n, v := range ordered {
		if n < KeepVersions || v.Number == current || v.Number == 1 || v.Hash() == "" || inUse(v.Hash()) ||
			now.Sub(v.CreatedAt) < KeepFor {
			continue
		}
		retired = append(retired, v.Number)
	}
	slices.Sort(retired)
	return retired
}
