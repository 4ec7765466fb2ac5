// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaling

import (
	"cmp"
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"github.com/multieni/multieni/awssim/apierror"
	"github.com/multieni/multieni/awssim/ec2"
)

// GroupSettings are the settings of a group. An update keeps what is unset.
type GroupSettings struct {
	AutoScalingGroupName             string                       `query:"AutoScalingGroupName"`
	LaunchTemplate                   *LaunchTemplateSpecification `query:"LaunchTemplate"`
	MixedInstancesPolicy             *MixedInstancesPolicy        `query:"MixedInstancesPolicy"`
	MinSize                          *int                         `query:"MinSize"`
	MaxSize                          *int                         `query:"MaxSize"`
	DesiredCapacity                  *int                         `query:"DesiredCapacity"`
	DefaultCooldown                  *int                         `query:"DefaultCooldown"`
	AvailabilityZones                []string                     `query:"AvailabilityZones"`
	VPCZoneIdentifier                string                       `query:"VPCZoneIdentifier"`
	HealthCheckType                  string                       `query:"HealthCheckType"`
	HealthCheckGracePeriod           *int                         `query:"HealthCheckGracePeriod"`
	NewInstancesProtectedFromScaleIn *bool                        `query:"NewInstancesProtectedFromScaleIn"`
	// TerminationPolicies may only be the default one.
	TerminationPolicies []string `query:"TerminationPolicies"`
}

// defaultPolicy chooses the instances that a group ends.
const defaultPolicy = "Default"

// CreateGroupInput is the request of CreateAutoScalingGroup.
type CreateGroupInput struct {
	GroupSettings
	Tags           []Tag               `query:"Tags"`
	LifecycleHooks []HookSpecification `query:"LifecycleHookSpecificationList"`
}

// CreateAutoScalingGroup creates a group, which begins to launch instances.
func (m *Model) CreateAutoScalingGroup(in *CreateGroupInput) (*Nothing, error) {
	switch {
	case in.AutoScalingGroupName == "":
		return nil, validation("1 validation error detected: Value null at 'autoScalingGroupName' failed to satisfy " +
			"constraint: Member must not be null")
	case m.groups[in.AutoScalingGroupName] != nil:
		return nil, apierror.New("AlreadyExists",
			"AutoScalingGroup by this name already exists - A group with the name %s already exists", in.AutoScalingGroupName)
	case in.MinSize == nil || in.MaxSize == nil:
		return nil, validation("MinSize and MaxSize are required")
	case in.LaunchTemplate == nil && in.MixedInstancesPolicy == nil:
		return nil, validation("Valid requests must contain a LaunchTemplate or a MixedInstancesPolicy: awssim does " +
			"not model launch configurations")
	}
	g := &Group{
		AutoScalingGroupName: in.AutoScalingGroupName, AutoScalingGroupARN: m.arn(in.AutoScalingGroupName),
		CreatedTime: m.timeline.Now(),
		ServiceLinkedRoleARN: "arn:aws:iam::" + m.options.Account + ":role/aws-service-role/autoscaling.amazonaws.com/" +
			"AWSServiceRoleForAutoScaling",
		TerminationPolicies: []string{defaultPolicy},
		HealthCheckType:     "EC2", DefaultCooldown: 300, DesiredCapacity: *in.MinSize,
		Tags: m.ofGroup(in.AutoScalingGroupName, in.Tags),
	}
	if err := m.apply(g, in.GroupSettings); err != nil {
		return nil, err
	}
	for _, hook := range in.LifecycleHooks {
		if err := m.putHook(g, hook); err != nil {
			return nil, err
		}
	}
	m.groups[g.AutoScalingGroupName] = g
	m.balanceAfter(g, 0)
	return &Nothing{}, nil
}

// apply applies the settings of a request if all are valid.
func (m *Model) apply(g *Group, in GroupSettings) error {
	changed := *g
	set(&changed.MinSize, in.MinSize)
	set(&changed.MaxSize, in.MaxSize)
	set(&changed.DesiredCapacity, in.DesiredCapacity)
	set(&changed.DefaultCooldown, in.DefaultCooldown)
	set(&changed.HealthCheckGracePeriod, in.HealthCheckGracePeriod)
	set(&changed.NewInstancesProtectedFromScaleIn, in.NewInstancesProtectedFromScaleIn)
	changed.VPCZoneIdentifier = cmp.Or(in.VPCZoneIdentifier, g.VPCZoneIdentifier)
	changed.HealthCheckType = cmp.Or(in.HealthCheckType, g.HealthCheckType)
	if len(in.AvailabilityZones) > 0 {
		changed.AvailabilityZones = in.AvailabilityZones
	}
	if err := changed.launchesFrom(in); err != nil {
		return err
	}
	if in.DesiredCapacity == nil {
		changed.DesiredCapacity = min(max(changed.DesiredCapacity, changed.MinSize), changed.MaxSize)
	}
	switch {
	case changed.MinSize < 0 || changed.MinSize > changed.MaxSize:
		return validation("Max bound, %d, must be greater than or equal to min bound, %d", changed.MaxSize, changed.MinSize)
	case changed.DesiredCapacity < changed.MinSize || changed.DesiredCapacity > changed.MaxSize:
		return validation("Desired capacity:%d must be between the specified min size:%d and max size:%d",
			changed.DesiredCapacity, changed.MinSize, changed.MaxSize)
	case changed.VPCZoneIdentifier == "" && len(changed.AvailabilityZones) == 0:
		return validation("At least one Availability Zone or VPC Subnet is required.")
	}
	if other := slices.ContainsFunc(in.TerminationPolicies, func(p string) bool { return p != defaultPolicy }); other {
		return validation("awssim models only the termination policy %s, not %v", defaultPolicy, in.TerminationPolicies)
	}
	if err := m.checkPlaces(&changed); err != nil {
		return err
	}
	*g = changed
	return nil
}

func set[T any](into, value *T) {
	if value != nil {
		*into = *value
	}
}

// checkPlaces looks up the launch templates, the subnets and their zones. A group that names a template by ID or by
// name shows both.
func (m *Model) checkPlaces(g *Group) error {
	call := ec2.Call{Now: m.timeline.Now()}
	for _, c := range g.choices() {
		names, err := m.ec2.NamesOf(call, *c.template.version())
		if err != nil {
			return validation("You must use a valid fully-formed launch template. %v", err)
		}
		c.template.LaunchTemplateID, c.template.LaunchTemplateName = names.LaunchTemplateID, names.LaunchTemplateName
	}
	ids := g.subnets()
	if len(ids) == 0 {
		return nil
	}
	g.AvailabilityZones = nil
	for _, id := range ids {
		zone := m.ec2.ZoneOf(id)
		if zone == "" {
			return validation("The subnet ID '%s' does not exist", id)
		}
		if !slices.Contains(g.AvailabilityZones, zone) {
			g.AvailabilityZones = append(g.AvailabilityZones, zone)
		}
	}
	return nil
}

// UpdateAutoScalingGroup changes a group.
func (m *Model) UpdateAutoScalingGroup(in *GroupSettings) (*Nothing, error) {
	g, err := m.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	if err := m.apply(g, *in); err != nil {
		return nil, err
	}
	m.balanceAfter(g, 0)
	return &Nothing{}, nil
}

// SetDesiredCapacityInput is the request of SetDesiredCapacity.
type SetDesiredCapacityInput struct {
	AutoScalingGroupName string `query:"AutoScalingGroupName"`
	DesiredCapacity      *int   `query:"DesiredCapacity"`
	HonorCooldown        bool   `query:"HonorCooldown"`
}

// SetDesiredCapacity scales a group. Cooldowns are not modelled.
func (m *Model) SetDesiredCapacity(in *SetDesiredCapacityInput) (*Nothing, error) {
	return m.UpdateAutoScalingGroup(&GroupSettings{AutoScalingGroupName: in.AutoScalingGroupName,
		DesiredCapacity: in.DesiredCapacity})
}

// DeleteGroupInput is the request of DeleteAutoScalingGroup.
type DeleteGroupInput struct {
	AutoScalingGroupName string `query:"AutoScalingGroupName"`
	ForceDelete          bool   `query:"ForceDelete"`
}

// DeleteAutoScalingGroup deletes a group that has no instances, or by force with its instances.
func (m *Model) DeleteAutoScalingGroup(in *DeleteGroupInput) (*Nothing, error) {
	g, err := m.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	if len(g.Instances) > 0 && !in.ForceDelete {
		return nil, apierror.New("ResourceInUse",
			"You cannot delete an AutoScalingGroup while there are instances or pending Spot instance request(s) "+
				"still in the group.")
	}
	g.deleting, g.Status, g.hooks = true, "Delete in progress", nil
	g.MinSize, g.DesiredCapacity = 0, 0
	for _, instance := range slices.Clone(g.Instances) {
		m.terminate(g, instance, "the group is deleted")
	}
	m.balanceAfter(g, 0)
	return &Nothing{}, nil
}

// TerminateInstanceInput is the request of TerminateInstanceInAutoScalingGroup.
type TerminateInstanceInput struct {
	InstanceID                     string `query:"InstanceId"`
	ShouldDecrementDesiredCapacity *bool  `query:"ShouldDecrementDesiredCapacity"`
}

// TerminateInstanceOutput is its answer.
type TerminateInstanceOutput struct {
	Activity *Activity `json:"activity" xml:"Activity"`
}

// TerminateInstanceInAutoScalingGroup terminates an instance. The group replaces it unless the request decrements the
// desired capacity.
func (m *Model) TerminateInstanceInAutoScalingGroup(in *TerminateInstanceInput) (*TerminateInstanceOutput, error) {
	if in.ShouldDecrementDesiredCapacity == nil {
		return nil, validation("1 validation error detected: Value null at 'shouldDecrementDesiredCapacity' failed " +
			"to satisfy constraint: Member must not be null")
	}
	for _, g := range m.groups {
		instance := g.find(in.InstanceID)
		if instance == nil {
			continue
		}
		if *in.ShouldDecrementDesiredCapacity {
			if g.DesiredCapacity == g.MinSize {
				return nil, validation("Currently, desiredSize equals minSize (%d). Terminating instance without "+
					"replacement will violate group's min size constraint.", g.MinSize)
			}
			g.DesiredCapacity--
		}
		m.terminate(g, instance, "instance "+in.InstanceID+" was taken out of service in response to a user request")
		return &TerminateInstanceOutput{g.activities[len(g.activities)-1]}, nil
	}
	return nil, validation("Instance Id not found - No managed instance found for instance ID: %s", in.InstanceID)
}

func (m *Model) group(name string) (*Group, error) {
	g := m.groups[name]
	if g == nil {
		return nil, validation("AutoScalingGroup name not found - null")
	}
	return g, nil
}

// sorted are all groups by name.
func (m *Model) sorted() []*Group {
	var all []*Group
	for _, name := range slices.Sorted(maps.Keys(m.groups)) {
		all = append(all, m.groups[name])
	}
	return all
}

// Page has the paging parameters of describe actions: at most 100 items at once, 50 by default.
type Page struct {
	MaxRecords *int   `query:"MaxRecords"`
	NextToken  string `query:"NextToken"`
}

// cut returns the page of a list, whose members have distinct keys in order, and the token of the next.
func cut[T any](p Page, all []T, key func(T) string) ([]T, string, error) {
	limit := 50
	if p.MaxRecords != nil {
		limit = *p.MaxRecords
	}
	if limit < 1 || limit > 100 {
		return nil, "", validation("MaxRecords is %d and must be from 1 to 100", limit)
	}
	if p.NextToken != "" {
		last, err := base64.RawURLEncoding.DecodeString(p.NextToken)
		at := slices.IndexFunc(all, func(one T) bool { return key(one) == string(last) })
		if err != nil || at < 0 {
			return nil, "", apierror.New("InvalidNextToken", "The token '%s' is invalid", p.NextToken)
		}
		all = all[at+1:]
	}
	if len(all) <= limit {
		return all, "", nil
	}
	return all[:limit], base64.RawURLEncoding.EncodeToString([]byte(key(all[limit-1]))), nil
}

// Filter narrows DescribeAutoScalingGroups.
type Filter struct {
	Name   string   `query:"Name"`
	Values []string `query:"Values"`
}

// DescribeGroupsInput is the request of DescribeAutoScalingGroups.
type DescribeGroupsInput struct {
	Page
	AutoScalingGroupNames []string `query:"AutoScalingGroupNames"`
	Filters               []Filter `query:"Filters"`
}

// DescribeGroupsOutput is its answer.
type DescribeGroupsOutput struct {
	AutoScalingGroups []*Group `json:"autoScalingGroups" xml:"AutoScalingGroups"`
	NextToken         string   `json:"nextToken,omitempty" xml:"NextToken"`
}

// DescribeAutoScalingGroups lists groups. It omits unknown names.
func (m *Model) DescribeAutoScalingGroups(in *DescribeGroupsInput) (*DescribeGroupsOutput, error) {
	var found []*Group
	for _, g := range m.sorted() {
		if len(in.AutoScalingGroupNames) > 0 && !slices.Contains(in.AutoScalingGroupNames, g.AutoScalingGroupName) {
			continue
		}
		matched, err := g.matches(in.Filters)
		if err != nil {
			return nil, err
		}
		if matched {
			found = append(found, g.copy())
		}
	}
	page, next, err := cut(in.Page, found, func(g *Group) string { return g.AutoScalingGroupName })
	if err != nil {
		return nil, err
	}
	return &DescribeGroupsOutput{page, next}, nil
}

// copy returns a copy for an answer.
func (g *Group) copy() *Group {
	shown := *g
	shown.Instances, shown.Tags = nil, slices.Clone(g.Tags)
	for _, i := range g.Instances {
		copied := *i
		shown.Instances = append(shown.Instances, &copied)
	}
	return &shown
}

func (g *Group) matches(filters []Filter) (bool, error) {
	for _, f := range filters {
		var have func(Tag) string
		switch key, isTag := strings.CutPrefix(f.Name, "tag:"); {
		case f.Name == "tag-key":
			have = func(t Tag) string { return t.Key }
		case f.Name == "tag-value":
			have = func(t Tag) string { return t.Value }
		case isTag:
			have = func(t Tag) string {
				if t.Key == key {
					return t.Value
				}
				return ""
			}
		default:
			return false, validation("The filter '%s' is invalid: use tag-key, tag-value or tag:KEY", f.Name)
		}
		if !slices.ContainsFunc(g.Tags, func(t Tag) bool { return slices.Contains(f.Values, have(t)) }) {
			return false, nil
		}
	}
	return true, nil
}

// InstanceDetails is an instance with its group.
type InstanceDetails struct {
	Instance
	AutoScalingGroupName string `json:"autoScalingGroupName" xml:"AutoScalingGroupName"`
}

// DescribeInstancesInput is the request of DescribeAutoScalingInstances.
type DescribeInstancesInput struct {
	Page
	InstanceIDs []string `query:"InstanceIds"`
}

// DescribeInstancesOutput is its answer.
type DescribeInstancesOutput struct {
	Instances []*InstanceDetails `json:"instances" xml:"AutoScalingInstances"`
	NextToken string             `json:"nextToken,omitempty" xml:"NextToken"`
}

// DescribeAutoScalingInstances lists the instances of all groups.
func (m *Model) DescribeAutoScalingInstances(in *DescribeInstancesInput) (*DescribeInstancesOutput, error) {
	var found []*InstanceDetails
	for _, g := range m.sorted() {
		for _, i := range g.Instances {
			if len(in.InstanceIDs) == 0 || slices.Contains(in.InstanceIDs, i.InstanceID) {
				found = append(found, &InstanceDetails{*i, g.AutoScalingGroupName})
			}
		}
	}
	page, next, err := cut(in.Page, found, func(i *InstanceDetails) string { return i.InstanceID })
	if err != nil {
		return nil, err
	}
	return &DescribeInstancesOutput{page, next}, nil
}

// DescribeActivitiesInput is the request of DescribeScalingActivities.
type DescribeActivitiesInput struct {
	Page
	AutoScalingGroupName string `query:"AutoScalingGroupName"`
}

// DescribeActivitiesOutput is its answer.
type DescribeActivitiesOutput struct {
	Activities []*Activity `json:"activities" xml:"Activities"`
	NextToken  string      `json:"nextToken,omitempty" xml:"NextToken"`
}

// DescribeScalingActivities lists the activities of groups, newest first.
func (m *Model) DescribeScalingActivities(in *DescribeActivitiesInput) (*DescribeActivitiesOutput, error) {
	var found []*Activity
	for _, g := range m.sorted() {
		if in.AutoScalingGroupName == "" || in.AutoScalingGroupName == g.AutoScalingGroupName {
			for _, a := range slices.Backward(g.activities) {
				copied := *a
				found = append(found, &copied)
			}
		}
	}
	page, next, err := cut(in.Page, found, func(a *Activity) string { return a.ActivityID })
	if err != nil {
		return nil, err
	}
	return &DescribeActivitiesOutput{page, next}, nil
}

// TagsInput is the request of CreateOrUpdateTags.
type TagsInput struct {
	Tags []Tag `query:"Tags"`
}

// CreateOrUpdateTags adds or replaces tags of groups. Running instances keep their tags.
func (m *Model) CreateOrUpdateTags(in *TagsInput) (*Nothing, error) {
	for _, tag := range in.Tags {
		g, err := m.group(tag.ResourceID)
		if err != nil {
			return nil, err
		}
		g.Tags = slices.DeleteFunc(slices.Clone(g.Tags), func(t Tag) bool { return t.Key == tag.Key })
		g.Tags = append(g.Tags, m.ofGroup(tag.ResourceID, []Tag{tag})...)
	}
	return &Nothing{}, nil
}

func (m *Model) ofGroup(name string, tags []Tag) []Tag {
	owned := slices.Clone(tags)
	for i := range owned {
		owned[i].ResourceID, owned[i].ResourceType = name, "auto-scaling-group"
	}
	return owned
}

// GroupState is everything about a group.
type GroupState struct {
	*Group
	LifecycleHooks []*Hook `json:"lifecycleHooks"`
	// LifecycleActions are all past and present ones, oldest first.
	LifecycleActions []LifecycleAction `json:"lifecycleActions"`
	Activities       []*Activity       `json:"activities"`
}

// State returns all groups by name.
func (m *Model) State() []GroupState {
	var all []GroupState
	for _, g := range m.sorted() {
		s := GroupState{Group: g.copy(), LifecycleHooks: slices.Clone(g.hooks)}
		for _, a := range g.history {
			s.LifecycleActions = append(s.LifecycleActions, *a)
		}
		for _, a := range g.activities {
			copied := *a
			s.Activities = append(s.Activities, &copied)
		}
		all = append(all, s)
	}
	return all
}
