// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package sqs

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/multieni/multieni/awssim/apierror"
)

// CreateQueueInput is the request of CreateQueue.
type CreateQueueInput struct {
	QueueName  string            `json:"QueueName"`
	Attributes map[string]string `json:"Attributes"`
	Tags       map[string]string `json:"tags"`
}

// QueueURL is the answer of CreateQueue and GetQueueUrl.
type QueueURL struct {
	QueueURL string `json:"QueueUrl"`
}

// At returns the answer to a request that was sent to an endpoint.
func (q QueueURL) At(endpoint string) any { return &QueueURL{urlAt(endpoint, q.QueueURL)} }

// urlAt replaces the address in a queue's URL with another one. Some clients send requests for a queue to its URL.
func urlAt(endpoint, url string) string {
	_, queue, _ := strings.Cut(strings.TrimPrefix(url, "https://"), "/")
	return endpoint + "/" + queue
}

// CreateQueue creates a queue. It returns an existing one with the same name and attributes.
func (m *Model) CreateQueue(in *CreateQueueInput) (*QueueURL, error) {
	switch {
	case strings.HasSuffix(in.QueueName, ".fifo"):
		return nil, apierror.New("UnsupportedOperation", "awssim does not model FIFO queues")
	case !queueName.MatchString(in.QueueName):
		return nil, apierror.New("InvalidParameterValue",
			"Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
	}
	q := &queue{Name: in.QueueName, ARN: m.arn(in.QueueName), Created: m.timeline.Now(), Attributes: map[string]string{}}
	for name, r := range attributeRanges {
		q.Attributes[name] = strconv.Itoa(r.byDefault)
	}
	q.Attributes["SqsManagedSseEnabled"] = "true" // of all new queues (developer guide, "Configuring SSE-SQS")
	if err := m.setAttributes(q, in.Attributes); err != nil {
		return nil, err
	}
	if known := m.queues[in.QueueName]; known != nil {
		if !maps.Equal(known.Attributes, q.Attributes) {
			return nil, apierror.New("QueueNameExists",
				"A queue already exists with the same name and a different value for an attribute.")
		}
		return &QueueURL{m.url(in.QueueName)}, nil
	}
	m.queues[in.QueueName] = q
	return &QueueURL{m.url(in.QueueName)}, nil
}

// DeleteQueue deletes a queue with its messages.
func (m *Model) DeleteQueue(in *QueueInput) (*Nothing, error) {
	q, err := m.queueAt(in.QueueURL)
	if err != nil {
		return nil, err
	}
	delete(m.queues, q.Name)
	return &Nothing{}, nil
}

// GetQueueURLInput is the request of GetQueueUrl.
type GetQueueURLInput struct {
	QueueName string `json:"QueueName"`
}

// ListQueuesInput is the request of ListQueues.
type ListQueuesInput struct {
	QueueNamePrefix string `json:"QueueNamePrefix"`
	MaxResults      *int   `json:"MaxResults"`
	NextToken       string `json:"NextToken"`
}

// ListQueuesOutput is its answer.
type ListQueuesOutput struct {
	QueueURLs []string `json:"QueueUrls,omitempty"`
	NextToken string   `json:"NextToken,omitempty"`
}

// At returns the answer to a request that was sent to an endpoint.
func (o ListQueuesOutput) At(endpoint string) any {
	urls := make([]string, len(o.QueueURLs))
	for i, url := range o.QueueURLs {
		urls[i] = urlAt(endpoint, url)
	}
	return &ListQueuesOutput{urls, o.NextToken}
}

// ListQueues lists queues by name. The token of a page is the last name of the page before.
func (m *Model) ListQueues(in *ListQueuesInput) (*ListQueuesOutput, error) {
	const most = 1000 // SQS API reference, ListQueues
	limit := most
	if in.MaxResults != nil {
		limit = *in.MaxResults
	}
	if limit < 1 || limit > most {
		return nil, apierror.New("InvalidParameterValue",
			"Value %d for parameter MaxResults is invalid. Reason: Must be between 1 and %d.", limit, most)
	}
	out := &ListQueuesOutput{}
	for _, name := range slices.Sorted(maps.Keys(m.queues)) {
		if !strings.HasPrefix(name, in.QueueNamePrefix) || name <= in.NextToken {
			continue
		}
		if len(out.QueueURLs) == limit {
			if in.MaxResults != nil {
				out.NextToken = path.Base(out.QueueURLs[limit-1])
			}
			break
		}
		out.QueueURLs = append(out.QueueURLs, m.url(name))
	}
	return out, nil
}

// GetQueueURL finds a queue by name.
func (m *Model) GetQueueURL(in *GetQueueURLInput) (*QueueURL, error) {
	if m.queues[in.QueueName] == nil {
		return nil, noQueue()
	}
	return &QueueURL{m.url(in.QueueName)}, nil
}
