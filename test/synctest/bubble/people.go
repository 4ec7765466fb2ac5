// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// ChangeNodeENI lets a person change a NodeENI.
func (c *Cluster) ChangeNodeENI(name string, change func(*v1alpha1.NodeENI)) {
	c.Helper()
	n := c.NodeENI(name)
	before := n.DeepCopy()
	change(n)
	c.Must(c.User.Patch(c.Context(), n, client.MergeFrom(before)))
}

// ChangeNode lets a person change a Node.
func (c *Cluster) ChangeNode(name string, change func(*corev1.Node)) {
	c.Helper()
	n := c.Node(name)
	before := n.DeepCopy()
	change(n)
	c.Must(c.User.Patch(c.Context(), n, client.MergeFrom(before)))
}

// NodeENI reads a NodeENI.
func (c *Cluster) NodeENI(name string) *v1alpha1.NodeENI {
	c.Helper()
	var n v1alpha1.NodeENI
	c.Must(c.User.Get(c.Context(), client.ObjectKey{Name: name}, &n))
	return &n
}

// Node reads a Node.
func (c *Cluster) Node(name string) *corev1.Node {
	c.Helper()
	var n corev1.Node
	c.Must(c.User.Get(c.Context(), client.ObjectKey{Name: name}, &n))
	return &n
}

// Interfaces reads the NetworkInterfaces of a node, by name.
func (c *Cluster) Interfaces(node string) []v1alpha1.NetworkInterface {
	c.Helper()
	var all v1alpha1.NetworkInterfaceList
	c.Must(c.User.List(c.Context(), &all))
	return slices.DeleteFunc(all.Items, func(n v1alpha1.NetworkInterface) bool { return n.Spec.NodeName != node })
}

// Interface reads the only NetworkInterface of a node.
func (c *Cluster) Interface(node string) *v1alpha1.NetworkInterface {
	c.Helper()
	all := c.Interfaces(node)
	if len(all) != 1 {
		c.Fatalf("node %s has %d interfaces", node, len(all))
	}
	return &all[0]
}

// Reason returns why an interface is Ready or not.
func Reason(n v1alpha1.NetworkInterface) (reason, message string) {
	if c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Reason, c.Message
	}
	return "", ""
}

// InstanceID returns the instance behind a Node.
func (c *Cluster) InstanceID(node string) string {
	c.Helper()
	id := c.Node(node).Spec.ProviderID
	return id[strings.LastIndex(id, "/")+1:]
}

// Console lets a person call EC2 by hand.
func (c *Cluster) Console(action string, parameters ...string) {
	c.Helper()
	form := url.Values{"Action": {action}, "Version": {"2016-11-15"}}
	for n := 0; n < len(parameters); n += 2 {
		form.Set(parameters[n], parameters[n+1])
	}
	request, err := http.NewRequestWithContext(c.Context(), http.MethodPost, "http://ec2.invalid/",
		strings.NewReader(form.Encode()))
	c.Must(err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := c.EC2.Transport().RoundTrip(request)
	c.Must(err)
	body, err := io.ReadAll(answer.Body)
	c.Must(err)
	c.Must(answer.Body.Close())
	if answer.StatusCode != http.StatusOK {
		var refusal struct {
			Message string `xml:"Errors>Error>Message"`
		}
		c.Must(xml.Unmarshal(body, &refusal))
		c.Fatalf("%s by hand: %s", action, refusal.Message)
	}
}

// Eventually waits for a condition. While it is false, instead returns the state found instead; then it returns "".
func (c *Cluster) Eventually(within time.Duration, what string, instead func() string) time.Duration {
	c.Helper()
	begun := time.Now()
	for {
		is := instead()
		if is == "" {
			return time.Since(begun)
		}
		if time.Since(begun) > within {
			c.Fatalf("%s: still not so after %s: %.2000s", what, within, is)
		}
		time.Sleep(time.Second)
	}
}

// Always checks for a while that a condition stays true.
func (c *Cluster) Always(during time.Duration, what string, instead func() string) {
	c.Helper()
	for begun := time.Now(); time.Since(begun) < during; time.Sleep(5 * time.Second) {
		if is := instead(); is != "" {
			c.Fatalf("%s: not so any more after %s: %.2000s", what, time.Since(begun), is)
		}
	}
}
