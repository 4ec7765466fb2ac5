// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/events"
)

// balance launches or terminates instances until a group has its desired capacity.
func (m *Model) balance(g *Group) {
	switch living := g.living(); {
	case len(living) < g.DesiredCapacity:
		for range g.DesiredCapacity - len(living) {
			if !m.launch(g) {
				return
			}
		}
	case len(living) > g.DesiredCapacity:
		for _, victim := range g.victims(len(living) - g.DesiredCapacity) {
			m.terminate(g, victim, "a user request update of AutoScalingGroup constraints")
		}
	}
	if g.deleting && len(g.Instances) == 0 {
		delete(m.groups, g.AutoScalingGroupName)
	}
}

// balanceAfter plans balance.
func (m *Model) balanceAfter(g *Group, wait time.Duration) {
	if wait <= 0 {
		m.events.balance.Soon(g.AutoScalingGroupARN)
		return
	}
	m.events.balance.After(wait, g.AutoScalingGroupARN)
}

// living returns the instances that count towards the capacity.
func (g *Group) living() []*Instance {
	return slices.DeleteFunc(slices.Clone(g.Instances), func(i *Instance) bool {
		return strings.HasPrefix(i.LifecycleState, Terminating)
	})
}

// victims returns the instances to terminate first: the oldest in the zone with the most.
func (g *Group) victims(n int) []*Instance {
	living := slices.DeleteFunc(g.living(), func(i *Instance) bool { return i.ProtectedFromScaleIn })
	var chosen []*Instance
	for len(chosen) < n && len(living) > 0 {
		inZone := map[string]int{}
		for _, i := range living {
			inZone[i.AvailabilityZone]++
		}
		at := 0
		for i := range living {
			if inZone[living[i].AvailabilityZone] > inZone[living[at].AvailabilityZone] {
				at = i
			}
		}
		chosen = append(chosen, living[at])
		living = slices.Delete(living, at, at+1)
	}
	return chosen
}

// launch launches one instance where the group has the fewest, and reports whether that succeeded.
func (m *Model) launch(g *Group) bool {
	if m.timeline.Now().Before(g.retry) {
		return false
	}
	activity := m.begin(g, "Launching a new EC2 instance",
		"an instance was started in response to a difference between desired and actual capacity")
	made, by, err := m.launchFirst(g)
	if err != nil {
		activity.end(m.timeline.Now(), "Failed", err.Error()+". Launching EC2 instance failed.")
		g.retry = m.timeline.Now().Add(m.options.Behavior.Retry)
		m.put(g, "EC2 Instance Launch Unsuccessful", "", map[string]any{"StatusCode": "Failed", "StatusMessage": err.Error()})
		m.balanceAfter(g, m.options.Behavior.Retry)
		return false
	}
	instance := &Instance{
		InstanceID: made[0].InstanceID, InstanceType: made[0].InstanceType,
		AvailabilityZone: made[0].Placement.AvailabilityZone,
		LifecycleState:   Pending, HealthStatus: "Healthy", ProtectedFromScaleIn: g.NewInstancesProtectedFromScaleIn,
		subnet: made[0].SubnetID, running: made[0].State.Name == ec2.Running,
		LaunchTemplate: &LaunchTemplateSpecification{
			LaunchTemplateID: made[0].Tags["aws:ec2launchtemplate:id"], LaunchTemplateName: by.template.LaunchTemplateName,
			Version: made[0].Tags["aws:ec2launchtemplate:version"],
		},
	}
	g.Instances = append(g.Instances, instance)
	activity.Description += ": " + instance.InstanceID
	activity.at(instance).end(m.timeline.Now(), "Successful", "")
	m.ec2.SetLifecycleState(instance.InstanceID, InService)
	if instance.running || m.options.Behavior.HookWhilePending {
		m.awaitLaunchHooks(g, instance)
	}
	return true
}

// launchFirst launches one instance from the first possible choice of the group, or returns the error of the last one.
func (m *Model) launchFirst(g *Group) (made []*ec2.Instance, by choice, err error) {
	for _, by = range g.choices() {
		if made, err = m.ec2.LaunchFor(ec2.Call{Now: m.timeline.Now()}, m.request(g, by), m.instanceTags(g)); err == nil {
			return made, by, nil
		}
	}
	return nil, by, err
}

// request returns a launch request for one instance in the subnet, or the zone, with the fewest.
func (m *Model) request(g *Group, by choice) *ec2.RunInstancesInput {
	count := 1
	in := &ec2.RunInstancesInput{
		LaunchTemplateData: ec2.LaunchTemplateData{InstanceType: by.instanceType}, LaunchTemplate: by.template.version(),
		MinCount: &count, MaxCount: &count,
	}
	if subnets := g.subnets(); len(subnets) > 0 {
		in.SubnetID = g.fewest(subnets, func(i *Instance) string { return i.subnet })
	} else {
		in.Placement = &ec2.PlacementSpecification{AvailabilityZone: g.fewest(g.AvailabilityZones,
			func(i *Instance) string { return i.AvailabilityZone })}
	}
	return in
}

func (g *Group) fewest(places []string, of func(*Instance) string) string {
	count := map[string]int{}
	for _, i := range g.living() {
		count[of(i)]++
	}
	return slices.MinFunc(places, func(a, b string) int { return cmp.Compare(count[a], count[b]) })
}

// instanceTags returns the tags that the group gives its instances.
func (m *Model) instanceTags(g *Group) ec2.Tags {
	tags := ec2.Tags{"aws:autoscaling:groupName": g.AutoScalingGroupName}
	for _, tag := range g.Tags {
		if tag.PropagateAtLaunch {
			tags[tag.Key] = tag.Value
		}
	}
	return tags
}

func (m *Model) begin(g *Group, description, cause string) *Activity {
	a := &Activity{
		ActivityID: m.uuid(), AutoScalingGroupName: g.AutoScalingGroupName, Description: description,
		Cause: "At " + m.timeline.Now().UTC().Format(time.RFC3339) + " " + cause + ".", StartTime: m.timeline.Now(),
		StatusCode: "InProgress", Progress: 50, Details: "{}", AutoScalingGroupARN: g.AutoScalingGroupARN,
	}
	g.activities = append(g.activities, a)
	return a
}

// at sets the details of an activity of an instance.
func (a *Activity) at(i *Instance) *Activity {
	a.Details = fmt.Sprintf(`{"Subnet ID":%q,"Availability Zone":%q}`, i.subnet, i.AvailabilityZone)
	return a
}

func (a *Activity) end(now time.Time, code, message string) {
	a.EndTime, a.StatusCode, a.StatusMessage, a.Progress = now, code, message, 100
}

// watch follows the instances of all groups.
func (m *Model) watch(changed *ec2.Instance) {
	g := m.groups[changed.Tags["aws:autoscaling:groupName"]]
	if g == nil {
		return
	}
	id, state := changed.InstanceID, changed.State.Name
	m.events.follow.Soon(member{g.AutoScalingGroupARN, id, state})
}

func (m *Model) follow(g *Group, instanceID, state string) {
	instance := g.find(instanceID)
	if instance == nil {
		return
	}
	switch state {
	case ec2.Running:
		instance.running = true
		m.awaitLaunchHooks(g, instance)
		m.enterService(g, instance)
	case ec2.ShuttingDown, ec2.Stopping:
		if !strings.HasPrefix(instance.LifecycleState, Terminating) {
			instance.HealthStatus = "Unhealthy"
			m.events.replace.After(m.options.Behavior.Replace, member{g.AutoScalingGroupARN, instanceID, state})
		}
	case ec2.Terminated:
		instance.LifecycleState = Terminated
		m.endActions(instance, Abandon)
		g.Instances = slices.DeleteFunc(g.Instances, func(i *Instance) bool { return i == instance })
		m.put(g, "EC2 Instance Terminate Successful", instanceID, map[string]any{"StatusCode": "InProgress"})
		m.balanceAfter(g, 0)
	}
}

// awaitLaunchHooks lets the hooks of a new instance begin after their delay.
func (m *Model) awaitLaunchHooks(g *Group, instance *Instance) {
	m.events.hooks.After(m.options.Behavior.Hook, member{g.AutoScalingGroupARN, instance.InstanceID, ec2.Running})
}

// beginLaunchHooks lets the hooks of a new instance begin, unless they have begun.
func (m *Model) beginLaunchHooks(g *Group, instance *Instance) {
	if instance.LifecycleState != Pending {
		return
	}
	if !m.beginHooks(g, instance, Launching) {
		m.enterService(g, instance)
		return
	}
	instance.LifecycleState = PendingWait
}

// enterService completes the launch of a running instance that no hook holds.
func (m *Model) enterService(g *Group, instance *Instance) {
	waitsForHooks := instance.LifecycleState == Pending && g.hasHook(Launching)
	if !instance.running || waitsForHooks || instance.LifecycleState != Pending &&
		instance.LifecycleState != PendingProceed {
		return
	}
	instance.LifecycleState = InService
	m.put(g, "EC2 Instance Launch Successful", instance.InstanceID, map[string]any{"StatusCode": "InProgress"})
}

// terminate begins to terminate an instance of a group. Its hooks may delay this.
func (m *Model) terminate(g *Group, instance *Instance, cause string) {
	if g.find(instance.InstanceID) == nil || strings.HasPrefix(instance.LifecycleState, Terminating) {
		return
	}
	activity := m.begin(g, "Terminating EC2 instance: "+instance.InstanceID, cause)
	activity.at(instance).end(m.timeline.Now(), "Successful", "")
	m.ec2.SetLifecycleState(instance.InstanceID, Terminated)
	m.endActions(instance, Abandon)
	instance.LifecycleState = Terminating
	if m.beginHooks(g, instance, Leaving) {
		instance.LifecycleState = TerminatingWait
	} else {
		m.end(instance)
	}
	m.balanceAfter(g, m.options.Behavior.Replace)
}

// end terminates the instance itself.
func (m *Model) end(instance *Instance) {
	instance.LifecycleState = TerminatingProceed
	m.events.end.Soon(instance.InstanceID)
}

// put sends an event about a group to EventBridge.
func (m *Model) put(g *Group, detailType, instanceID string, detail map[string]any) {
	detail["AutoScalingGroupName"] = g.AutoScalingGroupName
	resources := []string{g.AutoScalingGroupARN}
	if instanceID != "" {
		detail["EC2InstanceId"] = instanceID
		resources = append(resources, fmt.Sprintf("arn:aws:ec2:%s:%s:instance/%s", m.options.Region,
			m.options.Account, instanceID))
	}
	m.options.Put(events.Event{Source: "aws.autoscaling", DetailType: detailType, Resources: resources, Detail: detail})
}
