// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/selector"
)

// Config is an operator's configuration for the instances that events name.
type Config struct {
	// Cluster is the owner in the tags of the interfaces: the controller's --cluster-name, if there is a controller.
	Cluster string `json:"cluster"`
	// Trigger chooses instances by a tag. An instance that attaches its own interfaces needs none; if one is set, it
	// selects the other instances that wait for addresses.
	Trigger Trigger `json:"trigger"`
	// Groups are the Auto Scaling groups to serve, by name or with * and ?; all when there are none.
	Groups []string `json:"groups,omitempty"`
	// Hooks are the names of the lifecycle hooks that are ours to complete, by name or with * and ?. A hook that is not
	// listed is not completed: EKS has its own on every managed node group.
	Hooks []string `json:"hooks,omitempty"`
	// OnFailure is the result that the lifecycle hook receives when a required network is not available.
	OnFailure Policy `json:"onFailure,omitempty"`
	// Networks are the interfaces that each instance gets.
	Networks []Network `json:"networks"`
	// Removed are the names of networks whose interfaces are removed from live instances. The interface of a network
	// that merely left the list stays until its instance ends: another hook may use the network.
	Removed []string `json:"removed,omitempty"`
}

// Trigger is a tag of instances. An empty TagValue matches all values.
type Trigger struct {
	TagKey   string `json:"tagKey"`
	TagValue string `json:"tagValue,omitempty"`
}

// Matches reports whether the trigger selects an instance with these tags.
func (t Trigger) Matches(tags map[string]string) bool {
	value, tagged := tags[t.TagKey]
	return tagged && (t.TagValue == "" || t.TagValue == value)
}

// Policy is a result of a lifecycle action.
type Policy string

// The results that Auto Scaling knows (Auto Scaling API, CompleteLifecycleAction).
const (
	// Continue puts the instance into service.
	Continue Policy = "CONTINUE"
	// Abandon makes Auto Scaling terminate the instance and launch another one.
	Abandon Policy = "ABANDON"
)

// Allocation is how an interface gets its primary address.
type Allocation string

// The allocations, as in a NodeENI.
const (
	Auto       Allocation = "Auto"
	LowestFree Allocation = "LowestFree"
)

// Network is one kind of interface, with the fields of a NodeENI.
type Network struct {
	Name string `json:"name"`

	SubnetID       string            `json:"subnetID,omitempty"`
	SubnetName     string            `json:"subnetName,omitempty"`
	SubnetIDs      []string          `json:"subnetIDs,omitempty"`
	SubnetNames    []string          `json:"subnetNames,omitempty"`
	SubnetSelector map[string]string `json:"subnetSelector,omitempty"`

	SecurityGroupIDs      []string          `json:"securityGroupIDs,omitempty"`
	SecurityGroupNames    []string          `json:"securityGroupNames,omitempty"`
	SecurityGroupSelector map[string]string `json:"securityGroupSelector,omitempty"`

	// DeviceIndex is the first requested index; zero means 1.
	DeviceIndex       int    `json:"deviceIndex,omitempty"`
	DeviceIndexPolicy string `json:"deviceIndexPolicy,omitempty"`
	NetworkCardIndex  int    `json:"networkCardIndex,omitempty"`

	Description         string            `json:"description,omitempty"`
	Tags                map[string]string `json:"tags,omitempty"`
	SourceDestCheck     *bool             `json:"sourceDestCheck,omitempty"`
	DeleteOnTermination *bool             `json:"deleteOnTermination,omitempty"`
	IPv4Allocation      Allocation        `json:"ipv4Allocation,omitempty"`
	// IPv6 gives each interface one IPv6 address if its subnet has them; with LowestFree, the one with the same offset
	// in the subnet's IPv6 block as the IPv4 address in its IPv4 block.
	IPv6 bool `json:"ipv6,omitempty"`
	// MTU is that of the link in bytes; 0 for the largest inside a VPC.
	MTU int `json:"mtu,omitempty"`
	// Sysctls are kernel settings of the link alone.
	Sysctls map[hostnet.Setting]int `json:"sysctls,omitempty"`
	// Required networks decide whether an instance is ready; nil means true.
	Required *bool `json:"required,omitempty"`
}

// SubnetTerms returns how the network chooses subnets.
func (n Network) SubnetTerms() selector.SubnetTerms {
	return selector.SubnetTerms{IDs: withSingle(n.SubnetID, n.SubnetIDs),
		Names: withSingle(n.SubnetName, n.SubnetNames), Tags: n.SubnetSelector}
}

// GroupTerms returns how the network chooses security groups.
func (n Network) GroupTerms() selector.GroupTerms {
	return selector.GroupTerms{IDs: n.SecurityGroupIDs, Names: n.SecurityGroupNames, Tags: n.SecurityGroupSelector}
}

func withSingle(single string, list []string) []string {
	if single != "" {
		return append([]string{single}, list...)
	}
	return list
}

// Owns reports whether we complete a hook.
func (c Config) Owns(hook HookRef) bool { return matchesAny(c.Hooks, hook.Name) }

// CheckTrigger returns an error if nothing selects the instances to serve. A program that serves instances other than
// its own needs a trigger.
func (c Config) CheckTrigger() error {
	if c.Trigger.TagKey == "" {
		return fmt.Errorf("trigger.tagKey (%s): name the tag of the instances to serve; without it every "+
			"instance would be", ParameterTagKey)
	}
	return nil
}

// Serves reports whether the configuration selects the instances of an Auto Scaling group.
func (c Config) Serves(group string) bool { return len(c.Groups) == 0 || matchesAny(c.Groups, group) }

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(pattern, name)
		return err == nil && matched
	})
}

// ParseConfig reads the file form, as JSON, and checks it. Every mistake is in the error.
func ParseConfig(document []byte) (Config, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.DisallowUnknownFields()
	var c Config
	if err := decoder.Decode(&c); err != nil {
		return Config{}, err
	}
	if decoder.More() {
		return Config{}, fmt.Errorf("text follows the configuration after byte %d; remove it, or write one object",
			decoder.InputOffset())
	}
	c.applyDefaults()
	return c, c.validate()
}

func (c *Config) applyDefaults() {
	if c.OnFailure == "" {
		c.OnFailure = Continue
	}
	for n := range c.Networks {
		network := &c.Networks[n]
		if network.DeviceIndex == 0 {
			network.DeviceIndex = 1
		}
		if network.DeviceIndexPolicy == "" {
			network.DeviceIndexPolicy = "Prefer"
		}
		if network.IPv4Allocation == "" {
			network.IPv4Allocation = Auto
		}
		network.SourceDestCheck = orTrue(network.SourceDestCheck)
		network.DeleteOnTermination = orTrue(network.DeleteOnTermination)
		network.Required = orTrue(network.Required)
	}
}

func orTrue(b *bool) *bool {
	if b == nil {
		yes := true
		return &yes
	}
	return b
}

// eksHooks are those that EKS puts on the groups of managed node groups and completes itself.
var eksHooks = []string{"Launch-LC-Hook", "Terminate-LC-Hook"}

func (c Config) validate() error {
	var mistakes []error
	wrong := func(format string, arguments ...any) { mistakes = append(mistakes, fmt.Errorf(format, arguments...)) }
	if c.Cluster == "" {
		wrong("cluster: name the cluster that owns the interfaces; its name tells them from those of other clusters")
	}
	if c.OnFailure != Continue && c.OnFailure != Abandon {
		wrong("onFailure: %q is neither %s nor %s", c.OnFailure, Continue, Abandon)
	}
	for _, pattern := range slices.Concat(c.Groups, c.Hooks) {
		if _, err := path.Match(pattern, ""); err != nil {
			wrong("%q is not a name with * and ?: %v", pattern, err)
		}
	}
	for _, hook := range eksHooks {
		if matchesAny(c.Hooks, hook) {
			wrong("hooks: %s is completed by EKS itself; add a hook of your own to the group and name that", hook)
		}
	}
	if len(c.Networks) == 0 {
		wrong("networks: name at least one")
	}
	seen := map[string]bool{}
	for n, network := range c.Networks {
		for _, mistake := range network.validate() {
			wrong("networks[%d] %s: %s", n, network.Name, mistake)
		}
		if seen[network.Name] {
			wrong("networks[%d] %s: another network has the same name", n, network.Name)
		}
		seen[network.Name] = true
	}
	for _, name := range c.Removed {
		if name == "" || seen[name] {
			wrong("removed: %q is listed in networks, or is no name; a network is either wanted or removed", name)
		}
	}
	return errors.Join(mistakes...)
}

// networkName matches the names of networks: the rest of the label networking.k8s.aws/network.NAME, whose part behind
// the slash has at most 63 characters (Kubernetes, "Labels and Selectors", syntax).
var networkName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,53}[A-Za-z0-9])?$`)

func (n Network) validate() []string {
	var mistakes []string
	switch {
	case n.Name == "":
		mistakes = append(mistakes, "name: it has none")
	case !networkName.MatchString(n.Name):
		mistakes = append(mistakes, "name: it becomes part of a node's label and of a flag of the kubelet: use letters, "+
			"digits, -, _ and ., at most 55, with a letter or digit at both ends")
	}
	if countSet(n.SubnetID != "", n.SubnetName != "", len(n.SubnetIDs) > 0, len(n.SubnetNames) > 0,
		len(n.SubnetSelector) > 0) != 1 {
		mistakes = append(mistakes, "exactly one of subnetID, subnetName, subnetIDs, subnetNames and subnetSelector "+
			"must be set")
	}
	if countSet(len(n.SecurityGroupIDs) > 0, len(n.SecurityGroupNames) > 0, len(n.SecurityGroupSelector) > 0) != 1 {
		mistakes = append(mistakes, "exactly one of securityGroupIDs, securityGroupNames and securityGroupSelector "+
			"must be set")
	}
	if n.DeviceIndex < 1 || n.NetworkCardIndex < 0 {
		mistakes = append(mistakes, "deviceIndex starts at 1 and networkCardIndex at 0: device 0 is the instance's own")
	}
	if n.DeviceIndexPolicy != "Prefer" && n.DeviceIndexPolicy != "Exact" {
		mistakes = append(mistakes, fmt.Sprintf("deviceIndexPolicy: %q is neither Prefer nor Exact", n.DeviceIndexPolicy))
	}
	if n.IPv4Allocation != Auto && n.IPv4Allocation != LowestFree {
		mistakes = append(mistakes, fmt.Sprintf("ipv4Allocation: %q is neither %s nor %s", n.IPv4Allocation,
			Auto, LowestFree))
	}
	mistakes = append(mistakes, n.validateLink()...)
	for _, key := range slices.Sorted(maps.Keys(n.Tags)) {
		if strings.HasPrefix(key, "aws:") {
			mistakes = append(mistakes, fmt.Sprintf("tags: keys that begin with aws: are AWS's own, such as %q", key))
		}
		if strings.HasPrefix(key, identity.Prefix) {
			mistakes = append(mistakes, fmt.Sprintf("tags: keys that begin with %s are multieni's own, such as %q",
				identity.Prefix, key))
		}
	}
	return mistakes
}

func (n Network) validateLink() []string {
	var mistakes []string
	if n.MTU != 0 && (n.MTU < identity.MinMTU || n.MTU > identity.MaxMTU) {
		mistakes = append(mistakes, fmt.Sprintf("mtu: it can be from %d to %d bytes", identity.MinMTU, identity.MaxMTU))
	}
	for _, name := range slices.Sorted(maps.Keys(n.Sysctls)) {
		if !slices.Contains(hostnet.Settings(), name) {
			mistakes = append(mistakes, fmt.Sprintf("sysctls: %q is none of %v, the settings of one link alone", name,
				hostnet.Settings()))
		}
		if value := n.Sysctls[name]; value < 0 || value > identity.MaxSetting {
			mistakes = append(mistakes, fmt.Sprintf("sysctls: %s can be from 0 to %d", name, identity.MaxSetting))
		}
	}
	return mistakes
}

// tags returns the user's tags of an interface, and the tags that describe its link.
func (n Network) tags() map[string]string {
	tags := identity.LinkTags(n.MTU, n.Sysctls)
	maps.Copy(tags, n.Tags)
	return tags
}

func countSet(set ...bool) int {
	n := 0
	for _, s := range set {
		if s {
			n++
		}
	}
	return n
}
