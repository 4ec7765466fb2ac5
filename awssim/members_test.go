// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim_test

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/autoscaling"
	"github.com/multieni/multieni/awssim/ec2"
)

// Programs in Python read members without asking for them, and end where one is absent. AWS always sends these.
func TestMembersThatAWSAlwaysSends(t *testing.T) {
	world := awssim.ExampleWorld()
	world.LaunchTemplates = append(world.LaunchTemplates, ec2.WorldLaunchTemplate{LaunchTemplateName: "t",
		LaunchTemplateData: ec2.LaunchTemplateData{ImageID: world.Images[0].ImageID, InstanceType: "m5.large"}})
	world.AutoScalingGroups = append(world.AutoScalingGroups, autoscaling.WorldGroup{AutoScalingGroupName: "g", MaxSize: 1, DesiredCapacity: 1,
		VPCZoneIdentifier: world.Subnets[0].SubnetID, LaunchTemplate: autoscaling.LaunchTemplateSpecification{LaunchTemplateName: "t"}})
	sim, err := awssim.New(awssim.Options{World: world, Behavior: &ec2.Behavior{}, Clock: awssim.ScaledClock(1)})
	if err != nil {
		t.Fatal(err)
	}
	const groups = "2011-01-01"
	for _, row := range []struct{ call, version, members string }{
		{"DescribeSecurityGroups", "2016-11-15", "ipPermissions ipPermissionsEgress"},
		{"DescribeVpcs", "2016-11-15", "dhcpOptionsId ipv6CidrBlockAssociationSet"},
		{"DescribeSubnets", "2016-11-15", "enableDns64 mapCustomerOwnedIpOnLaunch privateDnsNameOptionsOnLaunch"},
		{"DescribeRouteTables", "2016-11-15", "routeSet associationSet propagatingVgwSet tagSet"},
		{"DescribeImages", "2016-11-15", "blockDeviceMapping imageLocation platformDetails usageOperation"},
		{"DescribeNetworkInterfaces", "2016-11-15", "operator"},
		{"DescribeInstances", "2016-11-15", "cpuOptions coreCount privateDnsNameOptions maintenanceOptions operator " +
			"capacityReservationSpecification enclaveOptions hibernationOptions usageOperation"},
		{"DescribeInstanceTypes", "2016-11-15", "vCpuInfo memoryInfo supportedUsageClasses supportedRootDeviceTypes ebsInfo " +
			"placementGroupInfo burstablePerformanceSupported instanceStorageSupported"},
		{"DescribeAutoScalingGroups", groups, "HealthCheckGracePeriod TerminationPolicies SuspendedProcesses LoadBalancerNames " +
			"TargetGroupARNs EnabledMetrics TrafficSources ServiceLinkedRoleARN"},
		{"DescribeScalingActivities", groups, "ActivityId Cause Details AutoScalingGroupARN Progress"},
		{"CreateFleet&Type=instant&TargetCapacitySpecification.TotalTargetCapacity=1&TargetCapacitySpecification." +
			"DefaultTargetCapacityType=on-demand&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=t&" +
			"LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=1", "2016-11-15", "errorSet fleetInstanceSet"},
	} {
		form, err := url.ParseQuery("Action=" + row.call + "&Version=" + row.version)
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(form.Encode()))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		sim.ServeHTTP(answer, request)
		for name := range strings.FieldsSeq(row.members) {
			if !strings.Contains(answer.Body.String(), "<"+name+">") {
				t.Errorf("%s: no %s in the answer (HTTP %d): %.300s", form.Get("Action"), name, answer.Code, answer.Body)
			}
		}
	}
}
