// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpproxy"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// With a proxy, what answers on the node and the API server is reached without it, and EC2 through it.
func TestProxy(t *testing.T) {
	controller, _ := controllerAndDrain(t, `
controller:
  extraEnv: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: proxy, key: password}}}]
  proxy: {url: "http://multieni:$(PASSWORD)@proxy.example.com:3128", noProxy: [.vpce.amazonaws.com, 10.0.0.0/16]}
`)
	for _, apiServer := range []string{"172.20.0.1", "fd12:3456::1"} {
		proxy := proxyOf(controller.Spec.Containers[0].Env, apiServer).ProxyFunc()
		host := apiServer
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		for target, through := range map[string]bool{
			"https://ec2.eu-west-1.amazonaws.com/": true, "https://sts.eu-west-1.amazonaws.com/": true,
			"http://169.254.169.254/latest/": false, "http://[fd00:ec2::254]/latest/": false,
			"http://169.254.170.23/v1/credentials": false, "http://[fd00:ec2::23]/v1/credentials": false,
			"https://" + host + ":443/api": false, "https://collector.monitoring.svc:4318/": false,
			"https://vpce-1.ec2.eu-west-1.vpce.amazonaws.com/": false, "https://10.0.3.4/": false,
		} {
			u, err := url.Parse(target)
			if err != nil {
				t.Fatal(err)
			}
			got, err := proxy(u)
			if err != nil || (got != nil) != through {
				t.Errorf("with the API server at %s, %s goes through %v, %v", apiServer, target, got, err)
			}
			if got != nil && got.String() != "http://multieni:secret@proxy.example.com:3128" {
				t.Errorf("%s goes through %s", target, got)
			}
		}
	}
}

// proxyOf returns the proxy settings of an environment after the kubelet replaced the variables in it: each can name
// variables before it, and those of Services.
func proxyOf(env []corev1.EnvVar, apiServer string) *httpproxy.Config {
	known, values := []string{"$(KUBERNETES_SERVICE_HOST)", apiServer}, map[string]string{}
	for _, e := range env {
		if e.ValueFrom != nil {
			e.Value = "secret"
		}
		values[e.Name] = strings.NewReplacer(known...).Replace(e.Value)
		known = append(known, "$("+e.Name+")", values[e.Name])
	}
	return &httpproxy.Config{HTTPProxy: values["HTTPS_PROXY"], HTTPSProxy: values["HTTPS_PROXY"], NoProxy: values["NO_PROXY"]}
}

// The network policy lets the controller reach its proxy.
func TestNetworkPolicyAllowsTheProxy(t *testing.T) {
	for proxy, port := range map[string]int32{
		"http://proxy.example.com:3128": 3128, "http://$(USER):$(PASSWORD)@proxy.example.com:8080/": 8080, "https://[fd00::1]:8443": 8443,
	} {
		var policy networkingv1.NetworkPolicy
		convert(t, named(render(t, fmt.Sprintf("{networkPolicy: {enabled: true}, controller: {proxy: {url: %q}}}", proxy)), "NetworkPolicy", "eni-controller"), &policy)
		if ports := egressPorts(policy); !slices.Contains(ports, port) {
			t.Errorf("the policy for the proxy %s allows the ports %v", proxy, ports)
		}
	}
	var policy networkingv1.NetworkPolicy
	convert(t, named(render(t, "networkPolicy: {enabled: true}"), "NetworkPolicy", "eni-controller"), &policy)
	if ports := egressPorts(policy); !slices.Equal(ports, []int32{53, 80, 443, 6443}) {
		t.Errorf("without a proxy the policy allows the ports %v", ports)
	}
}

// egressPorts returns the ports that a policy lets pods connect to, in their order.
func egressPorts(policy networkingv1.NetworkPolicy) []int32 {
	var ports []int32
	for _, rule := range policy.Spec.Egress {
		for _, p := range rule.Ports {
			ports = append(ports, p.Port.IntVal)
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}
