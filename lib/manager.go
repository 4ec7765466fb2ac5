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

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/base/version"
	"github.com/multieni/multieni/internal/core/eni"
)

// ErrNotFound is in the chain of errors about a resource that EC2 does not return.
var ErrNotFound = errors.New("not found")

// ENIManager manages the interfaces of one region. It is safe for concurrent use.
type ENIManager struct {
	ec2 *awsec2.Client
	log logr.Logger
}

// NewENIManager returns a manager for a region. "" means the region of the SDK's configuration or of the instance; it
// is an error if there is neither. Credentials come from the SDK's chain, and the endpoint from AWS_ENDPOINT_URL if
// set. NewENIManager sends no request to EC2.
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

// NewENIManagerWithConfig returns a manager that uses the region, credentials and endpoint of a configuration.
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
	// DeviceIndex, NetworkCardIndex and DeleteOnTermination say where and how it is attached; CreateENI does not use them.
	DeviceIndex, NetworkCardIndex int
	DeleteOnTermination           bool
	// Tags are part of the call that creates the interface.
	Tags map[string]string
	// ClientToken, at most 64 ASCII characters, makes a repeated call return the interface of the first one. Without a
	// token each call creates another interface.
	ClientToken string
	// SecondaryPrivateIPAddressCount and IPv4PrefixCount are the numbers of addresses and /28 prefixes of the interface in
	// addition to its primary address. At most one of them may be above zero.
	SecondaryPrivateIPAddressCount, IPv4PrefixCount int
}

// CreateENI creates an interface with all its tags in one call and returns its ID.
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

// AdoptENI returns the interface of the subnet that has all tags of the options, and creates it only if there is none;
// adopted reports which. The tags must identify it: several matches are an error. EC2 finds a new interface by its tags
// only after some moments; if that matters, set a ClientToken as well.
func (m *ENIManager) AdoptENI(ctx context.Context, options ENIOptions) (eniID string, adopted bool, err error) {
	if len(options.Tags) == 0 {
		return "", false, errors.New("adopt an interface: tags are required, because they identify it")
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
				"adopt an interface: both %s and %s have the tags; use tags that identify one interface", eniID, i.ID)
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

// Attach begins to attach an interface and returns the ID of the attachment, which DetachENI needs. If it cannot set
// DeleteOnTermination, Attach returns both the ID and the error.
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
			return attachment.ID, fmt.Errorf("set DeleteOnTermination of %s, which is being attached: %w", eniID, explained(err))
		}
	}
	return attachment.ID, nil
}

// DetachENI begins to detach, without force. It succeeds if the attachment no longer exists.
func (m *ENIManager) DetachENI(ctx context.Context, attachmentID string) error {
	if err := m.ec2.DetachInterface(ctx, attachmentID, false); err != nil && eni.ErrorClass(err) != eni.NotFound {
		return fmt.Errorf("detach %s: %w", attachmentID, explained(err))
	}
	return nil
}

// DeleteENI deletes an unattached interface. It succeeds if the interface no longer exists.
func (m *ENIManager) DeleteENI(ctx context.Context, eniID string) error {
	if err := m.ec2.DeleteInterface(ctx, eniID); err != nil && eni.ErrorClass(err) != eni.NotFound {
		return fmt.Errorf("delete %s: %w", eniID, explained(err))
	}
	return nil
}

// explained adds [ErrNotFound] to the chain of an error with that meaning.
func explained(err error) error {
	if eni.ErrorClass(err) == eni.NotFound {
		return errors.Join(ErrNotFound, err)
	}
	return err
}
