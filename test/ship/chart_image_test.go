// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// A value file that is kept for an upgrade can name the image of the former release, which does not know what the new
// chart passes.
func TestChartRefusesTheImageOfAnEarlierRelease(t *testing.T) {
	for name, c := range map[string]struct {
		set     string
		refused bool
	}{
		"an earlier release":             {"image.tag=v0.0.9", true},
		"an earlier one without v":       {"image.tag=0.0.9", true},
		"a candidate of the release":     {"image.tag=v0.1.0-rc.1", true},
		"the release of the chart":       {"image.tag=v0.1.0", false},
		"a later release":                {"image.tag=v0.2.0", false},
		"a tag that is no release":       {"image.tag=beta-latest", false},
		"a commit":                       {"image.tag=0123456789ab", false},
		"a digest, which wins over tags": {"image.tag=v0.0.9,image.digest=sha256:" + strings.Repeat("0", 64), false},
		"no tag":                         {"image.tag=", false},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := helm(t, "template", "multieni", chart, "--set", c.set)
			if refused := err != nil && strings.Contains(out, "this chart is of the later release v0.1.0: remove image.tag"); refused != c.refused || (err == nil) == c.refused {
				t.Errorf("refused is %t: %v\n%.2000s", refused, err, out)
			}
		})
	}
}

// An image whose tag is no release can still be one release behind. Its programs end at a flag that they do not know,
// and ignore variables. So without further values the chart passes only flags of the first release.
func TestTheChartPassesNoNewFlags(t *testing.T) {
	first := []string{"--check-interval", "--default-mtu", "--ec2-rate-share", "--ignore-interfaces", "--log-format", "--state-dir", "--v"}
	all := render(t, "{}")
	var deployment appsv1.Deployment
	var agents appsv1.DaemonSet
	convert(t, named(all, "Deployment", "eni-controller"), &deployment)
	convert(t, named(all, "DaemonSet", "eni-manager"), &agents)
	for _, pod := range []corev1.PodSpec{deployment.Spec.Template.Spec, agents.Spec.Template.Spec} {
		for _, argument := range pod.Containers[0].Args {
			flag, _, _ := strings.Cut(argument, "=")
			if strings.HasPrefix(flag, "-") && !slices.Contains(first, flag) {
				t.Errorf("%s gets %s: let the chart pass it only with a value of the user, or as a variable", pod.Containers[0].Name, flag)
			}
		}
	}
}
