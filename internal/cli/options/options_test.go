// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package options_test

import (
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/multieni/multieni/internal/cli/options"
)

// controller parses arguments and the environment as the command does.
func controller(t *testing.T, args ...string) (options.Controller, error) {
	t.Helper()
	var o options.Controller
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	o.Bind(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o, options.FromEnvironment(flags)
}

func agent(t *testing.T, args ...string) options.Agent {
	t.Helper()
	var o options.Agent
	flags := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	o.Bind(flags)
	if err := flags.Parse(append([]string{"--node-name=node-1"}, args...)); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestDefaultsAreValid(t *testing.T) {
	o, err := controller(t)
	if err != nil || o.Validate() != nil {
		t.Errorf("%v, %v", err, o.Validate())
	}
	if a := agent(t); a.Validate() != nil {
		t.Error(a.Validate())
	}
}

func TestAFlagWinsOverItsVariableAndThatOverTheDefault(t *testing.T) {
	const byDefault = 5
	cases := map[string]struct {
		variable string
		args     []string
		want     int
	}{
		"neither":           {"", nil, byDefault},
		"the variable":      {"7", nil, 7},
		"the flag":          {"", []string{"--max-concurrent-reconciles=9"}, 9},
		"both":              {"7", []string{"--max-concurrent-reconciles=9"}, 9},
		"both, say default": {"7", []string{"--max-concurrent-reconciles=5"}, 5},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("MAX_CONCURRENT_RECONCILES", tc.variable)
			o, err := controller(t, tc.args...)
			if err != nil || o.MaxConcurrentReconciles != tc.want {
				t.Errorf("got %d, %v; want %d", o.MaxConcurrentReconciles, err, tc.want)
			}
		})
	}
}

func TestAVariableThatMakesNoSenseIsReported(t *testing.T) {
	t.Setenv("MAX_CONCURRENT_RECONCILES", "many")
	if _, err := controller(t); err == nil {
		t.Error("passes")
	}
	t.Setenv("MAX_CONCURRENT_RECONCILES", "1")
	t.Setenv("CHECK_INTERVAL", "often")
	if _, err := controller(t); err != nil {
		t.Errorf("a variable of another command: %v", err)
	}
}

func TestControllerSettingsThatMakeNoSense(t *testing.T) {
	for _, arg := range []string{
		"--max-concurrent-reconciles=0", "--max-concurrent-eni-cleanup=-1", "--max-concurrent-nodes=0", "--resync-period=1ms", "--poll-interval=0",
		"--ec2-rate-share=0", "--ec2-rate-share=-1", "--ec2-rate-share=1.1", "--not-ready-taint=", "--leader-election-lease-duration=1s", "--log-format=xml",
	} {
		t.Run(arg, func(t *testing.T) {
			o, err := controller(t, arg)
			if err != nil {
				t.Fatal(err)
			}
			if o.Validate() == nil {
				t.Error("passes")
			}
		})
	}
}

func TestAgentSettingsThatMakeNoSense(t *testing.T) {
	for _, arg := range []string{
		"--node-name=", "--check-interval=1ms", "--default-mtu=1279", "--default-mtu=9002", "--default-mtu=-1", "--eni-pattern=(", "--log-format=xml",
	} {
		t.Run(arg, func(t *testing.T) {
			if a := agent(t, arg); a.Validate() == nil {
				t.Error("passes")
			}
		})
	}
}

func TestExcluded(t *testing.T) {
	cases := map[string]struct {
		args []string
		want bool
	}{
		"nothing said":          {nil, false},
		"the pattern fits":      {[]string{"--eni-pattern=^eth"}, false},
		"the pattern fits not":  {[]string{"--eni-pattern=^ens"}, true},
		"ignored":               {[]string{"--ignore-interfaces=lo,eth1"}, true},
		"others are ignored":    {[]string{"--ignore-interfaces=lo,eth2"}, false},
		"the primary interface": {[]string{"--primary-interface=eth1"}, true},
		"another is primary":    {[]string{"--primary-interface=eth0"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := agent(t, tc.args...)
			if got := a.Excluded()("eth1"); got != tc.want {
				t.Errorf("eth1 excluded: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestTheVerbosityIsANumber(t *testing.T) {
	o, err := controller(t, "--v=4", "--resync-period=90s")
	if err != nil || o.Verbosity != 4 || o.ResyncPeriod != 90*time.Second {
		t.Errorf("%+v, %v", o, err)
	}
}
