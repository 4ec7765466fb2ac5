// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/pflag"
)

// Agent is the settings of `multieni agent`.
type Agent struct {
	NodeName string

	// CheckInterval is the time between two checks of all links without an event.
	CheckInterval time.Duration
	// DefaultMTU is in bytes; 0 means 9001.
	DefaultMTU int

	// ENIPattern, IgnoreInterfaces and PrimaryInterface select the links that the agent never changes, by name.
	ENIPattern       string
	IgnoreInterfaces []string
	PrimaryInterface string

	// Sysfs is the mount point of sysfs, in which the agent binds devices to drivers. The agent keeps the files in
	// NetworkdDir and the file SRIOVConfig of the host up to date. StateDir is the folder of its checkpoint. Each of the
	// three is unused if empty.
	Sysfs, NetworkdDir, SRIOVConfig, StateDir string

	// PodsDir is a folder of the host that the agent shares with the CNI program. PodNetworks lets pods attach; without it
	// the agent lets go what an earlier one opened. An agent without PodsDir does neither.
	PodsDir     string
	PodNetworks bool
	// CNIDir, if set, must contain multieni's CNI plugins; WaitForCNI, if set, must contain Multus' configuration.
	CNIDir, WaitForCNI string
	// ObservePodAddresses makes the agent report the addresses that pods bring up themselves.
	ObservePodAddresses bool

	ProbeAddress string

	Logging
}

// Bind adds the flags to a flag set.
func (a *Agent) Bind(flags *pflag.FlagSet) {
	flags.StringVar(&a.NodeName, "node-name", "", "name of the Node this agent runs on")
	flags.DurationVar(&a.CheckInterval, "check-interval", 30*time.Second,
		"time between two checks of all links without an event; the agent handles changes at once")
	flags.IntVar(&a.DefaultMTU, "default-mtu", 0,
		"MTU in bytes of links whose NodeENI sets no mtu; 0 means 9001, the largest MTU inside a VPC")
	flags.StringVar(&a.ENIPattern, "eni-pattern", "",
		"regular expression; the agent never changes links with other names. Usually not needed, because the agent "+
			"finds links by MAC address")
	flags.StringSliceVar(&a.IgnoreInterfaces, "ignore-interfaces", nil, "names of links that the agent never changes")
	flags.StringVar(&a.PrimaryInterface,
		"primary-interface", "", "name of one more link that the agent never changes, in addition to "+
			"that of the primary interface")
	flags.StringVar(&a.Sysfs, "sysfs", "/sys",
		"mount point of sysfs; must be writable for NodeENIs with enableDPDK")
	flags.StringVar(&a.NetworkdDir, "networkd-dir", "",
		"folder on the host for the files that make systemd-networkd ignore the interfaces, for example "+
			"/etc/systemd/network; none if empty")
	flags.StringVar(&a.SRIOVConfig, "sriov-config", "",
		"file that lists devices for the SR-IOV network device plugin, for example /etc/pcidp/config.json; none if empty")
	flags.StringVar(&a.StateDir, "state-dir", "",
		"folder for a copy of the node's desired state, which the agent uses at start while the API server is "+
			"unavailable; none if empty")
	flags.StringVar(&a.PodsDir, "pods-dir", "",
		"folder on the host with the files of pod networks and the leases of pods, which the agent shares with the CNI "+
			"program; it must end with the boot, as /run/multieni/pods does; no pod networks if empty")
	flags.BoolVar(&a.PodNetworks, "pod-networks", true,
		"let pods attach to the pod networks; if false, the agent closes them, and lets interfaces go once their pods "+
			"have ended")
	flags.StringVar(&a.CNIDir, "cni-dir", "",
		"folder on the host that must contain the CNI plugins multieni-ipam and multieni-routes before pods attach; "+
			"not checked if empty")
	flags.StringVar(&a.WaitForCNI, "wait-for-cni", "",
		"folder on the host with CNI configurations, for example /etc/cni/net.d; the startup taint stays until the "+
			"first one is Multus' configuration; not checked if empty")
	flags.BoolVar(&a.ObservePodAddresses, "observe-pod-addresses", false,
		"report the addresses that pods bring up themselves on links of interfaces, for NodeENIs with pods.floating; "+
			"needs CAP_NET_BROADCAST")
	flags.StringVar(&a.ProbeAddress, "health-probe-bind-address", "0", "address of /healthz and /readyz; 0 for none")
	a.Logging.Bind(flags)
}

// Validate returns an error that names each invalid setting.
func (a *Agent) Validate() error {
	var faults []error
	if a.NodeName == "" {
		faults = append(faults, errors.New(
			"--node-name, or NODE_NAME, must name the Node; in a pod it comes from spec.nodeName"))
	}
	if a.CheckInterval < time.Second {
		faults = append(faults, errors.New("--check-interval must be at least 1s"))
	}
	if a.DefaultMTU != 0 && (a.DefaultMTU < 1280 || a.DefaultMTU > 9001) {
		faults = append(faults, fmt.Errorf("--default-mtu is %d and must be 0 or from 1280 to 9001", a.DefaultMTU))
	}
	if _, err := regexp.Compile(a.ENIPattern); err != nil {
		faults = append(faults, fmt.Errorf("--eni-pattern: %w", err))
	}
	return errors.Join(append(faults, a.Logging.validate())...)
}

// Excluded returns a function that reports whether the agent never changes the link of a name. The options must be
// valid.
func (a *Agent) Excluded() func(name string) bool {
	pattern := regexp.MustCompile(a.ENIPattern)
	return func(name string) bool {
		return !pattern.MatchString(name) || slices.Contains(a.IgnoreInterfaces, name) || name == a.PrimaryInterface
	}
}
