// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

// DescribeInstanceStatusInput is the request of DescribeInstanceStatus.
type DescribeInstanceStatusInput struct {
	Page
	InstanceIDs []string `query:"InstanceId"`
	// IncludeAllInstances adds the instances that do not run.
	IncludeAllInstances bool `query:"IncludeAllInstances"`
}

// DescribeInstanceStatusOutput is its answer.
type DescribeInstanceStatusOutput struct {
	InstanceStatuses []InstanceStatus `json:"instanceStatuses" xml:"instanceStatusSet"`
	NextToken        string           `json:"nextToken,omitempty"`
}

// InstanceStatus is the status of an instance. Status checks are not modelled: every running instance is ok.
type InstanceStatus struct {
	InstanceID       string        `json:"instanceId"`
	AvailabilityZone string        `json:"availabilityZone"`
	InstanceState    InstanceState `json:"instanceState"`
	InstanceStatus   StatusSummary `json:"instanceStatus"`
	SystemStatus     StatusSummary `json:"systemStatus"`
}

// StatusSummary is the outcome of status checks.
type StatusSummary struct {
	Status  string         `json:"status"`
	Details []StatusDetail `json:"details,omitempty"`
}

// StatusDetail is the outcome of one status check.
type StatusDetail struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

// DescribeInstanceStatus lists the status of instances: of the running ones, unless all are requested.
func (m *Model) DescribeInstanceStatus(c Call, in *DescribeInstanceStatusInput) (*DescribeInstanceStatusOutput, error) {
	page := in.Page
	if !in.IncludeAllInstances {
		page.Filters = append([]Filter{{Name: "instance-state-name", Values: []string{Running}}}, page.Filters...)
	}
	found, next, err := describe(m, c, m.instances, in.InstanceIDs, page)
	if err != nil {
		return nil, err
	}
	return &DescribeInstanceStatusOutput{each(found, instanceStatus), next}, nil
}

func instanceStatus(i *Instance) InstanceStatus {
	summary := StatusSummary{Status: "not-applicable"}
	if i.State.Name == Running {
		summary = StatusSummary{Status: "ok", Details: []StatusDetail{{Name: "reachability", Status: "passed"}}}
	}
	return InstanceStatus{
		InstanceID: i.InstanceID, AvailabilityZone: i.Placement.AvailabilityZone, InstanceState: i.State,
		InstanceStatus: summary, SystemStatus: summary,
	}
}
