// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func createTags(ids []string, tags ...types.Tag) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.CreateTags(ctx, &ec2.CreateTagsInput{Resources: ids, Tags: tags})
		return err
	}
}

func deleteTags(ids []string, tags ...types.Tag) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: ids, Tags: tags})
		return err
	}
}

func (ec *endpoint) awaitTags(t *testing.T, eni string, want map[string]string) {
	t.Helper()
	ec.awaitENI(t, eni, "tagged", func(e types.NetworkInterface) bool { return maps.Equal(tagsOf(e.TagSet), want) })
}

func TestCreateTags(t *testing.T) {
	ec := open(t)
	one, two := *ec.eni(t).NetworkInterfaceId, *ec.eni(t).NetworkInterfaceId
	verify(t, ec, []check{
		{name: "adds and overwrites, on several resources", run: func(t *testing.T, ec *endpoint) {
			ok(t, createTags([]string{one, two}, tag("a", "1"), tag("b", "1"))(t.Context(), ec))
			ok(t, createTags([]string{two}, tag("b", "2"), tag("Ünïcode", "värde"))(t.Context(), ec))
			ec.awaitTags(t, one, map[string]string{"a": "1", "b": "1"})
			ec.awaitTags(t, two, map[string]string{"a": "1", "b": "2", "Ünïcode": "värde"})
		}},
		{name: "DeleteTags takes a key whatever its value, or a key with a value", run: func(t *testing.T, ec *endpoint) {
			ok(t, deleteTags([]string{one, two}, types.Tag{Key: aws.String("a")}, tag("b", "1"), tag("never", "set"))(t.Context(), ec))
			ec.awaitTags(t, one, map[string]string{})
			ec.awaitTags(t, two, map[string]string{"b": "2", "Ünïcode": "värde"})
		}},
		{name: "a tag without a value has an empty one", run: func(t *testing.T, ec *endpoint) {
			eni := *ec.eni(t, tagged(tag("full", "x"))).NetworkInterfaceId
			ok(t, createTags([]string{eni}, types.Tag{Key: aws.String("empty")})(t.Context(), ec))
			ec.awaitTags(t, eni, map[string]string{"full": "x", "empty": ""})
			ec.awaitFound(t, []string{eni}, filter("network-interface-id", eni), filter("tag:empty", ""))
			ok(t, deleteTags([]string{eni}, tag("full", ""), tag("empty", ""))(t.Context(), ec))
			ec.awaitTags(t, eni, map[string]string{"full": "x"})
		}},
		{name: "DeleteTags without tags takes them all", strict: true, run: func(t *testing.T, ec *endpoint) {
			ok(t, deleteTags([]string{two})(t.Context(), ec))
			ec.awaitTags(t, two, map[string]string{})
		}},
		{name: "an instance and its interface", run: func(t *testing.T, ec *endpoint) {
			host := ec.instance(t)
			ok(t, createTags([]string{*host.InstanceId, one}, tag("c", "3"))(t.Context(), ec))
			ec.await(t, "the instance to be tagged", func(ctx context.Context) (string, error) {
				out, err := ec.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{*host.InstanceId}})
				if err != nil || tagsOf(out.Reservations[0].Instances[0].Tags)["c"] == "3" {
					return "", err
				}
				return "no tag", nil
			})
			ec.awaitTags(t, one, map[string]string{"c": "3"})
		}},
		{name: "an unknown interface", run: refused("InvalidNetworkInterfaceID.NotFound|InvalidID", createTags([]string{noENI}, tag("a", "1")))},
		{name: "an unknown instance", run: refused("InvalidInstanceID.NotFound|InvalidID", createTags([]string{noInstance}, tag("a", "1")))},
		{name: "something that is no id", strict: true, run: refusedSomehow(createTags([]string{"one"}, tag("a", "1")))},
		{name: "one unknown id tags none", strict: true, run: func(t *testing.T, ec *endpoint) {
			expectRefusal(t, "InvalidNetworkInterfaceID.NotFound|InvalidID", createTags([]string{two, noENI}, tag("x", "1"))(t.Context(), ec))
			ec.awaitTags(t, two, map[string]string{})
		}},
		{name: "50 tags, but not 51", strict: true, run: func(t *testing.T, ec *endpoint) {
			eni := *ec.eni(t).NetworkInterfaceId
			ok(t, createTags([]string{eni}, manyTags(50)...)(t.Context(), ec))
			expectRefusal(t, "TagLimitExceeded", createTags([]string{eni}, tag("one", "more"))(t.Context(), ec))
			ok(t, createTags([]string{eni}, tag("key-7", "changed"))(t.Context(), ec))
		}},
		{name: "a key that EC2 keeps for itself", strict: true,
			run: refused("InvalidTagKey.Malformed|InvalidParameterValue", createTags([]string{one}, tag("aws:owner", "me")))},
		{name: "a key of 129 characters", strict: true,
			run: refused("InvalidTagKey.Malformed|InvalidParameterValue", createTags([]string{one}, tag(strings.Repeat("k", 129), "v")))},
		{name: "a value of 257 characters", strict: true,
			run: refused("InvalidTagKey.Malformed|InvalidParameterValue", createTags([]string{one}, tag("k", strings.Repeat("v", 257))))},
	})
}
