// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaling

import "time"

// Group is an Auto Scaling group.
type Group struct {
	AutoScalingGroupName             string                       `json:"autoScalingGroupName" xml:"AutoScalingGroupName"`
	AutoScalingGroupARN              string                       `json:"autoScalingGroupArn" xml:"AutoScalingGroupARN"`
	LaunchTemplate                   *LaunchTemplateSpecification `json:"launchTemplate,omitempty" xml:"LaunchTemplate"`
	MixedInstancesPolicy             *MixedInstancesPolicy        `json:"mixedInstancesPolicy,omitempty" xml:"MixedInstancesPolicy"`
	MinSize                          int                          `json:"minSize" xml:"MinSize"`
	MaxSize                          int                          `json:"maxSize" xml:"MaxSize"`
	DesiredCapacity                  int                          `json:"desiredCapacity" xml:"DesiredCapacity"`
	DefaultCooldown                  int                          `json:"defaultCooldown" xml:"DefaultCooldown"`
	AvailabilityZones                []string                     `json:"availabilityZones" xml:"AvailabilityZones"`
	VPCZoneIdentifier                string                       `json:"vpcZoneIdentifier,omitempty" xml:"VPCZoneIdentifier"`
	HealthCheckType                  string                       `json:"healthCheckType" xml:"HealthCheckType"`
	HealthCheckGracePeriod           int                          `json:"healthCheckGracePeriod" xml:"HealthCheckGracePeriod"`
	TerminationPolicies              []string                     `json:"terminationPolicies" xml:"TerminationPolicies"`
	NewInstancesProtectedFromScaleIn bool                         `json:"newInstancesProtectedFromScaleIn" xml:"NewInstancesProtectedFromScaleIn"`
	ServiceLinkedRoleARN             string                       `json:"serviceLinkedRoleArn" xml:"ServiceLinkedRoleARN"`
	// The lists below are of what is not modelled: EC2 Auto Scaling returns them empty.
	SuspendedProcesses []struct{} `json:"-" xml:"SuspendedProcesses"`
	LoadBalancerNames  []string   `json:"-" xml:"LoadBalancerNames"`
	TargetGroupARNs    []string   `json:"-" xml:"TargetGroupARNs"`
	EnabledMetrics     []struct{} `json:"-" xml:"EnabledMetrics"`
	TrafficSources     []struct{} `json:"-" xml:"TrafficSources"`

	CreatedTime time.Time   `json:"createdTime" xml:"CreatedTime"`
	Status      string      `json:"status,omitempty" xml:"Status"`
	Instances   []*Instance `json:"instances" xml:"Instances"`
	Tags        []Tag       `json:"tags" xml:"Tags"`

	hooks      []*Hook
	activities []*Activity
	history    []*LifecycleAction
	retry      time.Time // earliest time of the next launch attempt
	deleting   bool
}

// LaunchTemplateSpecification names a version of a launch template.
type LaunchTemplateSpecification struct {
	LaunchTemplateID   string `query:"LaunchTemplateId" json:"launchTemplateId,omitempty" xml:"LaunchTemplateId"`
	LaunchTemplateName string `query:"LaunchTemplateName" json:"launchTemplateName,omitempty" xml:"LaunchTemplateName"`
	Version            string `query:"Version" json:"version,omitempty" xml:"Version"`
}

// Instance is an instance of a group.
type Instance struct {
	InstanceID           string                       `json:"instanceId" xml:"InstanceId"`
	InstanceType         string                       `json:"instanceType" xml:"InstanceType"`
	AvailabilityZone     string                       `json:"availabilityZone" xml:"AvailabilityZone"`
	LifecycleState       string                       `json:"lifecycleState" xml:"LifecycleState"`
	HealthStatus         string                       `json:"healthStatus" xml:"HealthStatus"`
	LaunchTemplate       *LaunchTemplateSpecification `json:"launchTemplate,omitempty" xml:"LaunchTemplate"`
	ProtectedFromScaleIn bool                         `json:"protectedFromScaleIn" xml:"ProtectedFromScaleIn"`

	subnet  string
	running bool
	actions []*action // of hooks that are not completed
}

// Lifecycle states.
const (
	Pending            = "Pending"
	PendingWait        = "Pending:Wait"
	PendingProceed     = "Pending:Proceed"
	InService          = "InService"
	Terminating        = "Terminating"
	TerminatingWait    = "Terminating:Wait"
	TerminatingProceed = "Terminating:Proceed"
	Terminated         = "Terminated"
)

// Tag is a tag of a group.
type Tag struct {
	ResourceID        string `query:"ResourceId" json:"resourceId,omitempty" xml:"ResourceId"`
	ResourceType      string `query:"ResourceType" json:"resourceType,omitempty" xml:"ResourceType"`
	Key               string `query:"Key" json:"key" xml:"Key"`
	Value             string `query:"Value" json:"value" xml:"Value"`
	PropagateAtLaunch bool   `query:"PropagateAtLaunch" json:"propagateAtLaunch" xml:"PropagateAtLaunch"`
}

// Hook is a lifecycle hook.
type Hook struct {
	AutoScalingGroupName  string `json:"autoScalingGroupName" xml:"AutoScalingGroupName"`
	LifecycleHookName     string `json:"lifecycleHookName" xml:"LifecycleHookName"`
	LifecycleTransition   string `json:"lifecycleTransition" xml:"LifecycleTransition"`
	HeartbeatTimeout      int    `json:"heartbeatTimeout" xml:"HeartbeatTimeout"` // seconds
	GlobalTimeout         int    `json:"globalTimeout" xml:"GlobalTimeout"`       // seconds
	DefaultResult         string `json:"defaultResult" xml:"DefaultResult"`
	NotificationTargetARN string `json:"notificationTargetArn,omitempty" xml:"NotificationTargetARN"`
	NotificationMetadata  string `json:"notificationMetadata,omitempty" xml:"NotificationMetadata"`
	RoleARN               string `json:"roleArn,omitempty" xml:"RoleARN"`
}

// Transitions and results of hooks.
const (
	Launching = "autoscaling:EC2_INSTANCE_LAUNCHING"
	Leaving   = "autoscaling:EC2_INSTANCE_TERMINATING"
	Continue  = "CONTINUE"
	Abandon   = "ABANDON"
)

// action is a hook that holds an instance.
type action struct {
	*LifecycleAction
	hook     Hook
	deadline time.Time
	last     time.Time // the end of the global timeout
}

// LifecycleAction records how a hook held an instance. Auto Scaling does not report this afterwards.
type LifecycleAction struct {
	LifecycleHookName    string    `json:"lifecycleHookName"`
	LifecycleTransition  string    `json:"lifecycleTransition"`
	LifecycleActionToken string    `json:"lifecycleActionToken"`
	InstanceID           string    `json:"instanceId"`
	Began                time.Time `json:"began"`
	Ended                time.Time `json:"ended,omitzero"`
	// Result is CONTINUE or ABANDON, and EndedBy its cause.
	Result  string  `json:"result,omitempty"`
	EndedBy EndedBy `json:"endedBy,omitempty"`
	// Heartbeats that were recorded.
	Heartbeats int `json:"heartbeats"`
	// Refused is the number of calls after the end.
	Refused int `json:"refused"`
}

// EndedBy is the cause of the end of a lifecycle action.
type EndedBy string

// Causes of the end of lifecycle actions.
const (
	ByCall        EndedBy = "call"        // CompleteLifecycleAction
	ByTimeout     EndedBy = "timeout"     // no heartbeat in time: the hook's default result
	ByHook        EndedBy = "hookDeleted" // DeleteLifecycleHook
	ByTermination EndedBy = "termination" // another hook abandoned the instance, or something else ended it
)

// Activity is an activity of a group.
type Activity struct {
	ActivityID           string    `json:"activityId" xml:"ActivityId"`
	AutoScalingGroupName string    `json:"autoScalingGroupName" xml:"AutoScalingGroupName"`
	Description          string    `json:"description" xml:"Description"`
	Cause                string    `json:"cause" xml:"Cause"`
	StartTime            time.Time `json:"startTime" xml:"StartTime"`
	EndTime              time.Time `json:"endTime,omitzero" xml:"EndTime"`
	StatusCode           string    `json:"statusCode" xml:"StatusCode"`
	StatusMessage        string    `json:"statusMessage,omitempty" xml:"StatusMessage"`
	Progress             int       `json:"progress" xml:"Progress"`
	// Details is JSON with the subnet and the zone; without an instance it has no member.
	Details             string `json:"details" xml:"Details"`
	AutoScalingGroupARN string `json:"autoScalingGroupArn" xml:"AutoScalingGroupARN"`
}
