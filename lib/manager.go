// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lib

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/go-logr/logr"

	"github.com/multieni/multieni/internal/awsec2"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/executor"
	"github.com/multieni/multieni/internal/version"
)

// ErrNotFound is in the chain of errors about something that EC2 does not know.
var ErrNotFound = errors.New("not found")

// ENIManager manages the interfaces of one region. It is safe for concurrent use.
type ENIManager struct {
	ec2 *awsec2.Client
	log logr.Logger
}

// NewENIManager returns a manager for a region; "" is the region of the SDK's configuration or the instance's own, and
// an error if neither tells. Credentials are found by the SDK's chain, and the endpoint is that of AWS_ENDPOINT_URL if
// set. Nothing is asked of EC2 yet.
func NewENIManager(ctx context.Context, region string, logger logr.Logger) (*ENIManager, error) {
	if region == "" {
		var err error
		if region, err = awsec2.Region(ctx, ""); err != nil {
			return nil, err
		}
	}
	cfg, err := awsec2.Load(ctx, region, version.String(), slog.New(logr.ToSlogHandler(logger)))
	if err != nil {
		return nil, err
	}
	return NewENIManagerWithConfig(cfg, logger), nil
}

// NewENIManagerWithConfig returns a manager that works with the region, credentials and endpoint of a configuration.
func NewENIManagerWithConfig(cfg aws.Config, logger logr.Logger) *ENIManager {
	return &ENIManager{log: logger, ec2: awsec2.New(cfg, awsec2.Options{Observe: func(call awsec2.Call) {
		logger.V(1).Info("EC2 call", "action", call.Action, "code", call.Code, "seconds", call.Duration.Seconds())
	}})}
}

// ENIOptions are the desired attributes of an interface.
type ENIOptions struct {
	SubnetID         string
	SecurityGroupIDs []string
	Description      string
	// DeviceIndex, NetworkCardIndex and DeleteOnTermination say where and how it is attached; creating does not use
	// them.
	DeviceIndex, NetworkCardIndex int
	DeleteOnTermination           bool
	// Tags go into the call that creates the interface.
	Tags map[string]string
	// ClientToken, at most 64 ASCII characters, makes creating again return the interface of the first time. Without
	// one each call makes another interface.
	ClientToken string
	// SecondaryPrivateIPAddressCount and IPv4PrefixCount are how many addresses or /28 prefixes the interface gets in
	// addition to its primary address; at most one of the two is above zero.
	SecondaryPrivateIPAddressCount, IPv4PrefixCount int
}

// CreateENI makes an interface with all its tags in one call and returns its ID.
func (m *ENIManager) CreateENI(ctx context.Context, options ENIOptions) (string, error) {
	made, err := m.ec2.CreateInterface(ctx, executor.CreateRequest{
		Token: options.ClientToken, SubnetID: options.SubnetID, Description: options.Description,
		Groups: options.SecurityGroupIDs, Tags: options.Tags,
		Counts: eni.AddressCounts{SecondaryIPv4: options.SecondaryPrivateIPAddressCount,
			IPv4Prefixes: options.IPv4PrefixCount},
	})
	if err != nil {
		return "", fmt.Errorf("create an interface in %s: %w", options.SubnetID, explained(err))
	}
	m.log.Info("created an interface", "eni", made.ID, "subnet", options.SubnetID)
	return made.ID, nil
}

// AdoptENI returns the interface of the subnet that has all tags of the options, and creates it only when there is
// none; adopted says which. The tags must identify it: several matches are an error. EC2 finds a new interface by its
// tags only after some moments; where that matters, give a ClientToken as well.
func (m *ENIManager) AdoptENI(ctx context.Context, options ENIOptions) (eniID string, adopted bool, err error) {
	if len(options.Tags) == 0 {
		return "", false, errors.New("adopt an interface: only its tags tell it from others")
	}
	tagged, err := m.ec2.ListTagged(ctx, options.Tags)
	if err != nil {
		return "", false, fmt.Errorf("look for an interface to adopt: %w", explained(err))
	}
	for _, i := range tagged {
		if i.SubnetID != options.SubnetID {
			continue
		}
		if eniID != "" {
			return "", false, fmt.Errorf(
				"adopt an interface: both %s and %s carry the tags; make them tell which is meant", eniID, i.ID)
		}
		eniID = i.ID
	}
	if eniID != "" {
		return eniID, true, nil
	}
	eniID, err = m.CreateENI(ctx, options)
	return eniID, false, err
}

// AttachENI attaches an interface at a device index of network card 0. A failed call does not change the interface.
// [ENIManager.Attach] returns the attachment ID as well.
func (m *ENIManager) AttachENI(
	ctx context.Context, eniID, instanceID string, deviceIndex int, deleteOnTermination bool,
) error {
	_, err := m.Attach(ctx, eniID, instanceID,
		AttachOptions{DeviceIndex: deviceIndex, DeleteOnTermination: deleteOnTermination})
	return err
}

// AttachOptions say where and how an interface is attached.
type AttachOptions struct {
	NetworkCardIndex, DeviceIndex int
	// DeleteOnTermination makes EC2 delete the interface together with the instance.
	DeleteOnTermination bool
}

// Attach begins to attach an interface and returns the ID of the attachment, which DetachENI needs. When only
// DeleteOnTermination cannot be set, Attach returns both the ID and the error.
func (m *ENIManager) Attach(
	ctx context.Context, eniID, instanceID string, options AttachOptions,
) (attachmentID string, err error) {
	slot := eni.Slot{Card: options.NetworkCardIndex, Device: options.DeviceIndex}
	attachment, err := m.ec2.AttachInterface(ctx, eniID, instanceID, slot)
	if err != nil {
		return "", fmt.Errorf("attach %s to %s at %s: %w", eniID, instanceID, slot, explained(err))
	}
	m.log.Info("attaching an interface", "eni", eniID, "instance", instanceID, "attachment", attachment.ID)
	if options.DeleteOnTermination {
		if err := m.ec2.SetDeleteOnTermination(ctx, eniID, attachment.ID, true); err != nil {
			return attachment.ID, fmt.Errorf("make %s, which is being attached, go with its instance: %w", eniID, explained(err))
		}
	}
	return attachment.ID, nil
}

// DetachENI begins to detach, without force. An attachment that is gone is success.
func (m *ENIManager) DetachENI(ctx context.Context, attachmentID string) error {
	if err := m.ec2.DetachInterface(ctx, attachmentID, false); err != nil && eni.ErrorClass(err) != eni.NotFound {
		return fmt.Errorf("detach %s: %w", attachmentID, explained(err))
	}
	return nil
}

// DeleteENI deletes an interface that is attached to nothing. One that is gone is success.
func (m *ENIManager) DeleteENI(ctx context.Context, eniID string) error {
	if err := m.ec2.DeleteInterface(ctx, eniID); err != nil && eni.ErrorClass(err) != eni.NotFound {
		return fmt.Errorf("delete %s: %w", eniID, explained(err))
	}
	return nil
}

// explained puts [ErrNotFound] into the chain of an error that means it.
func explained(err error) error {
	if eni.ErrorClass(err) == eni.NotFound {
		return errors.Join(ErrNotFound, err)
	}
	return err
}
