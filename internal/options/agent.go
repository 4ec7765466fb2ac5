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
	// WithoutKubernetes takes every interface that instance metadata lists for one to be made usable.
	WithoutKubernetes bool

	// CheckInterval is the time between two looks at the links when nothing seems to change.
	CheckInterval time.Duration
	// DefaultMTU is in bytes; 0 means 9001.
	DefaultMTU int

	// ENIPattern, IgnoreInterfaces and PrimaryInterface keep links from being touched, by name.
	ENIPattern       string
	IgnoreInterfaces []string
	PrimaryInterface string

	// Taint is the key of the startup taint; ReapplyTaint puts it back when an interface is lost.
	Taint        string
	ReapplyTaint bool

	// Sysfs is where devices are given to drivers. NetworkdDir and SRIOVConfig are a folder and a file of the host that
	// are kept up to date, StateDir is a folder of the agent's own; none if empty.
	Sysfs, NetworkdDir, SRIOVConfig, StateDir string

	// NetworksDir and LeasesDir are folders of the host that the agent shares with the CNI program; no pod networks if
	// empty.
	NetworksDir, LeasesDir string
	// CNIDir must have our CNI plugins, if set; WaitForCNI is the folder that must have Multus' configuration.
	CNIDir, WaitForCNI string
	// ObservePodAddresses makes the agent report the addresses that pods bring up themselves.
	ObservePodAddresses bool

	ProbeAddress string

	Logging
}

// Bind adds the flags to a flag set.
func (a *Agent) Bind(flags *pflag.FlagSet) {
	flags.StringVar(&a.NodeName, "node-name", "", "name of the Node this agent runs on")
	flags.BoolVar(&a.WithoutKubernetes, "without-kubernetes", false,
		"make every interface usable that instance metadata lists in addition to the primary one, without an API "+
			"server; not for nodes whose CNI has interfaces of its own")
	flags.DurationVar(&a.CheckInterval, "check-interval", 30*time.Second,
		"time between two looks at the links when nothing seems to change; changes are seen at once")
	flags.IntVar(&a.DefaultMTU, "default-mtu", 0,
		"MTU in bytes of links whose NodeENI names none; 0 means 9001, the largest inside a VPC")
	flags.StringVar(&a.ENIPattern, "eni-pattern", "",
		"regular expression; links of other names are never touched. Links are found by MAC address, so none is needed")
	flags.StringSliceVar(&a.IgnoreInterfaces, "ignore-interfaces", nil, "names of links that are never touched")
	flags.StringVar(&a.PrimaryInterface,
		"primary-interface", "", "name of one more link that is never touched; the primary interface never is")
	flags.StringVar(&a.Taint, "not-ready-taint", "networking.k8s.aws/not-ready",
		"key of the taint that is removed from the Node once its required interfaces are ready")
	flags.BoolVar(&a.ReapplyTaint, "reapply-taint", false, "put the taint back when a required interface is lost")
	flags.StringVar(&a.Sysfs, "sysfs", "/sys",
		"where sysfs is mounted for NodeENIs with enableDPDK; it must be writable for them")
	flags.StringVar(&a.NetworkdDir, "networkd-dir", "",
		"folder of the host for the files that make systemd-networkd ignore the interfaces, for example "+
			"/etc/systemd/network; none if empty")
	flags.StringVar(&a.SRIOVConfig, "sriov-config", "",
		"file to list devices in for the SR-IOV network device plugin, for example /etc/pcidp/config.json; none if empty")
	flags.StringVar(&a.StateDir, "state-dir", "",
		"folder to write down in what the node was promised, so that an agent that starts while the API server is "+
			"away knows it; none if empty")
	flags.StringVar(&a.NetworksDir, "networks-dir", "",
		"folder of the host for a file of each pod network, which the CNI program reads; no pod networks if empty")
	flags.StringVar(&a.LeasesDir, "leases-dir", "",
		"folder of the host with the leases of the CNI program; required with --networks-dir")
	flags.StringVar(&a.CNIDir, "cni-dir", "",
		"folder of the host that must have the CNI plugins multieni-ipam and multieni-routes before pods attach; not "+
			"looked at if empty")
	flags.StringVar(&a.WaitForCNI, "wait-for-cni", "",
		"folder of the host with CNI configurations, for example /etc/cni/net.d; the startup taint stays until "+
			"Multus' is the first in it. None if empty")
	flags.BoolVar(&a.ObservePodAddresses, "observe-pod-addresses", false,
		"report the addresses that pods bring up themselves on links of interfaces, for NodeENIs with pods.floating; "+
			"needs CAP_NET_BROADCAST")
	flags.StringVar(&a.ProbeAddress, "health-probe-bind-address", "0", "address of /healthz and /readyz; 0 for none")
	a.Logging.Bind(flags)
}

// Validate reports settings that make no sense.
func (a *Agent) Validate() error {
	var faults []error
	if a.NodeName == "" && !a.WithoutKubernetes {
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
	if a.NetworksDir != "" && a.LeasesDir == "" {
		faults = append(faults, errors.New("--leases-dir must name a folder together with --networks-dir"))
	}
	if a.Taint == "" {
		faults = append(faults, errors.New("--not-ready-taint must not be empty"))
	}
	return errors.Join(append(faults, a.Logging.validate())...)
}

// Excluded returns which links are never to be touched, by name. The options must be valid.
func (a *Agent) Excluded() func(name string) bool {
	pattern := regexp.MustCompile(a.ENIPattern)
	return func(name string) bool {
		return !pattern.MatchString(name) || slices.Contains(a.IgnoreInterfaces, name) || name == a.PrimaryInterface
	}
}
