// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package imds reads the instance and its interfaces from the instance metadata service, version 2. It needs no AWS
// credentials. The SDK handles tokens.
package imds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/multieni/multieni/internal/core/eni"
)

// Client reads one instance's service.
type Client struct{ client *imds.Client }

// New returns a client of the instance's own service, or of the one that the variable AWS_EC2_METADATA_SERVICE_ENDPOINT
// names; AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE=IPv6 is for instances that have only IPv6. New sends no request.
func New() (*Client, error) {
	var o imds.Options
	if err := o.EndpointMode.SetFromString(os.Getenv(endpointMode)); err != nil {
		return nil, fmt.Errorf("environment variable %s: %w", endpointMode, err)
	}
	return Of(imds.New(o, version2)), nil
}

// endpointMode is the name of a variable that the SDK reads only together with its credentials files.
const endpointMode = "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"

// version2 makes the client send no request without a token: any host could answer one.
func version2(o *imds.Options) { o.EnableFallback = aws.FalseTernary }

// Of returns a client that uses the SDK's.
func Of(client *imds.Client) *Client { return &Client{client} }

// Read reads what multieni needs. It omits an interface that is detached meanwhile.
func (c *Client) Read(ctx context.Context) (eni.Metadata, error) {
	var m eni.Metadata
	var err error
	if m.InstanceID, err = c.get(ctx, "instance-id"); err != nil {
		return m, err
	}
	if m.PrimaryMAC, err = c.get(ctx, "mac"); err != nil {
		return m, err
	}
	macs, err := c.get(ctx, "network/interfaces/macs/")
	if err != nil {
		return m, err
	}
	for _, mac := range strings.Fields(macs) {
		mac = strings.TrimSuffix(mac, "/")
		id, err := c.get(ctx, "network/interfaces/macs/"+mac+"/interface-id")
		if isMissing(err) {
			continue
		}
		if err != nil {
			return m, err
		}
		found := eni.Interface{ID: id, MAC: mac}
		if found.IPv4Prefixes, err = c.prefixes(ctx, mac, "ipv4-prefix"); err != nil {
			return m, err
		}
		if found.IPv6Prefixes, err = c.prefixes(ctx, mac, "ipv6-prefix"); err != nil {
			return m, err
		}
		m.Interfaces = append(m.Interfaces, found)
	}
	slices.SortFunc(m.Interfaces, eni.CompareInterfaces)
	return m, nil
}

// prefixes returns the prefixes of an interface that a document lists. There is no document without prefixes.
func (c *Client) prefixes(ctx context.Context, mac, document string) ([]netip.Prefix, error) {
	text, err := c.get(ctx, "network/interfaces/macs/"+mac+"/"+document)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var prefixes []netip.Prefix
	for line := range strings.FieldsSeq(text) {
		prefix, err := netip.ParsePrefix(line)
		if err != nil {
			return nil, fmt.Errorf("read %s of interface %s from instance metadata: %w", document, mac, err)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

// Tags returns the instance's tags in instance metadata: none if the instance does not allow access to them there.
func (c *Client) Tags(ctx context.Context) (map[string]string, error) {
	const at = "tags/instance/"
	keys, err := c.get(ctx, at)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tags := map[string]string{}
	for key := range strings.FieldsSeq(keys) { // a key in instance metadata has no spaces
		if tags[key], err = c.get(ctx, at+key); err != nil {
			return nil, err
		}
	}
	return tags, nil
}

func (c *Client) get(ctx context.Context, path string) (string, error) {
	out, err := c.client.GetMetadata(ctx, &imds.GetMetadataInput{Path: path})
	if err != nil {
		return "", fmt.Errorf("ask instance metadata for %s: %w", path, err)
	}
	content, err := io.ReadAll(out.Content)
	if err = errors.Join(err, out.Content.Close()); err != nil {
		return "", fmt.Errorf("read %s of instance metadata: %w", path, err)
	}
	return strings.TrimSpace(string(content)), nil
}

func isMissing(err error) bool {
	refused, ok := errors.AsType[*smithyhttp.ResponseError](err)
	return ok && refused.HTTPStatusCode() == http.StatusNotFound
}
