// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/tools/clientcmd"
)

// collector is an OpenTelemetry collector that keeps the spans that it receives.
type collector struct {
	url string

	mu    sync.Mutex
	spans map[string]*tracev1.Span
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{spans: map[string]*tracev1.Span{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// ServeHTTP receives spans by OTLP over HTTP.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request collectorv1.ExportTraceServiceRequest
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "not a request to export traces", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				c.spans[hex.EncodeToString(span.SpanId)] = span
			}
		}
	}
}

// paths returns the names of each span and of its parents, from the root, and all other texts of the spans.
func (c *collector) paths() (paths []string, words string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all strings.Builder
	for _, span := range c.spans {
		names := []string{span.Name}
		for above := c.spans[hex.EncodeToString(span.ParentSpanId)]; above != nil; above = c.spans[hex.EncodeToString(above.ParentSpanId)] {
			names = append(names, above.Name)
		}
		slices.Reverse(names)
		paths = append(paths, strings.Join(names, " > "))
		all.WriteString(span.String())
	}
	return paths, all.String()
}

// wantTraces asserts that the collector received the controller's spans, down to the calls to EC2.
func (s *site) wantTraces() {
	s.Helper()
	paths, words := s.traces.paths()
	for _, path := range []string{
		"reconcile > plan > create > EC2/CreateNetworkInterface", "reconcile > plan > attach > EC2/AttachNetworkInterface",
		"reconcile > EC2/CreateLaunchTemplate", "sweep",
	} {
		if !slices.Contains(paths, path) {
			s.Errorf("of %d spans none is %s", len(paths), path)
		}
	}
	for _, attribute := range []string{"k8s.node.name", "multieni.awsnodetemplate", "multieni.leaked_interfaces"} {
		if !strings.Contains(words, attribute) {
			s.Errorf("no span has the attribute %s", attribute)
		}
	}
}

// Secrets that must never be in a log or a trace: credentials of the controller, and user data of a node template that
// it publishes.
const (
	secretKey    = "a-secret-access-key"
	sessionToken = "a-session-token"
	secretData   = "a-secret-in-user-data"
)

var secretEnvironment = []string{"AWS_SECRET_ACCESS_KEY=" + secretKey, "AWS_SESSION_TOKEN=" + sessionToken}

// declareSecrets declares launch templates whose user data must stay secret.
func (s *site) declareSecrets() {
	s.Helper()
	file := filepath.Join(filepath.Dir(s.Kubeconfig), "node-template.yaml") // kubectl reads the commas in s.TempDir as separators of files
	content := strings.ReplaceAll(read(s.T, "examples/launch-single.yaml"), "/etc/eks/join", "join --token "+secretData)
	s.must(os.WriteFile(file, []byte(content), 0o600))
	s.kubectl("apply", "-f", file)
	s.eventually("a launch template has the user data", func() bool {
		s.encoded = s.userData()
		return len(s.encoded) > 0
	})
}

// userData returns the user data with the secret of the launch templates, as EC2 has it.
func (s *site) userData() (encoded []string) {
	for _, version := range s.Simulator.State().LaunchTemplateVersions {
		content, err := base64.StdEncoding.DecodeString(version.LaunchTemplateData.UserData)
		if err == nil && bytes.Contains(content, []byte(secretData)) {
			encoded = append(encoded, version.LaunchTemplateData.UserData)
		}
	}
	return encoded
}

// wantNoSecrets searches the logs of all processes, which run with --v=5.
func (s *site) wantNoSecrets() {
	s.Helper()
	whole := s.wholeLogs()
	for process, level := range map[string]string{"controller": "V5", "agent": "V4"} { // the highest level that each logs
		if !strings.Contains(whole[process+".run.log"], `"level":"`+level+`"`) {
			s.Errorf("the log of the %s is not the whole log:\n%s", process, whole[process+".run.log"])
		}
	}
	logs := fmt.Sprint(whole)
	_, traces := s.traces.paths()
	settings, err := clientcmd.LoadFromFile(s.Kubeconfig)
	s.must(err)
	secrets := []string{secretKey, sessionToken, secretData, "X-Amz-", "AWS4-HMAC", "Bearer "}
	secrets = append(secrets, s.encoded...)
	for _, user := range settings.AuthInfos {
		secrets = append(secrets, user.Token, user.Password, string(user.ClientKeyData))
	}
	for _, secret := range secrets {
		if secret != "" && (strings.Contains(logs, secret) || strings.Contains(traces, secret)) {
			s.Errorf("logs or traces tell %q", secret)
		}
	}
}
