// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/aws/awsec2"
)

// bareEnvironment removes the AWS settings of the test's environment.
func bareEnvironment(t *testing.T) {
	t.Helper()
	for _, setting := range os.Environ() {
		if name, _, _ := strings.Cut(setting, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

func TestRegion(t *testing.T) {
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "300")
			_, _ = w.Write([]byte("token"))
		case "/latest/dynamic/instance-identity/document":
			_, _ = w.Write([]byte(`{"region": "eu-west-1"}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer metadata.Close()
	profile := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(profile, []byte("[profile there]\nregion = ap-south-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		flag, nodes string
		env         map[string]string
		want        string
		source      awsec2.RegionSource
	}{
		"the flag wins":       {"eu-north-1", "", map[string]string{"AWS_REGION": "us-east-1"}, "eu-north-1", awsec2.RegionFromFlag},
		"AWS_REGION":          {"", "x", map[string]string{"AWS_REGION": "us-east-1"}, "us-east-1", awsec2.RegionFromConfig},
		"AWS_DEFAULT_REGION":  {"", "x", map[string]string{"AWS_DEFAULT_REGION": "us-east-2"}, "us-east-2", awsec2.RegionFromConfig},
		"the profile":         {"", "x", map[string]string{"AWS_CONFIG_FILE": profile, "AWS_PROFILE": "there"}, "ap-south-1", awsec2.RegionFromConfig},
		"the node labels":     {"", "ca-central-1", nil, "ca-central-1", awsec2.RegionFromNodes},
		"nothing says it":     {"", "", nil, awsec2.DefaultRegion, awsec2.RegionByDefault},
		"the instance itself": {"", "x", map[string]string{"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata.URL}, "eu-west-1", awsec2.RegionFromMetadata},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			bareEnvironment(t)
			for key, value := range tc.env {
				t.Setenv(key, value)
			}
			region, source, err := awsec2.ClusterRegion(t.Context(), tc.flag, func() string { return tc.nodes })
			if err != nil || region != tc.want || source != tc.source {
				t.Errorf("got %s by %s (%v), want %s by %s", region, source, err, tc.want, tc.source)
			}
			// A program without a cluster uses only configured regions, and no default.
			own, err := awsec2.Region(t.Context(), tc.flag)
			told := source != awsec2.RegionFromNodes && source != awsec2.RegionByDefault
			if told && (own != tc.want || err != nil) || !told && (own != "" || !errors.Is(err, awsec2.ErrNoRegion)) {
				t.Errorf("without a cluster: %q, %v", own, err)
			}
		})
	}
}

func TestUnusableProfile(t *testing.T) {
	bareEnvironment(t)
	t.Setenv("AWS_PROFILE", "missing")
	if _, _, err := awsec2.ClusterRegion(t.Context(), "", func() string { return "us-east-1" }); err == nil {
		t.Error("a profile that does not exist was passed over")
	}
	if _, err := awsec2.Load(t.Context(), "us-east-1", "v1", slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a profile that does not exist was loaded")
	}
}

// Without a log, the SDK writes to stderr in its own format.
func TestTheSDKsRemarksGoToTheLog(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "20000") // more than the server sends: the connection breaks after the answer
		_, _ = fmt.Fprintf(w, "<DescribeNetworkInterfacesResponse><requestId>r-1</requestId><networkInterfaceSet/></DescribeNetworkInterfacesResponse>%10000s", "")
	}))
	defer server.Close()
	cases := map[string]struct {
		least slog.Level
		want  bool
	}{
		"as it is": {slog.LevelInfo, false},
		"verbose":  {slog.LevelInfo - 1, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			log := slog.New(slog.NewJSONHandler(&text, &slog.HandlerOptions{Level: tc.least}))
			if _, _, err := awsec2.New(loadedWith(t, server.URL, log), awsec2.Options{Cluster: "c1"}).ListOwned(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(text.String(), `"msg":"message of the AWS SDK"`); got != tc.want {
				t.Errorf("the log says %q", &text)
			}
		})
	}
}

func TestLoadHonoursTheEnvironment(t *testing.T) {
	var agent, authorization string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agent, authorization = r.UserAgent(), r.Header.Get("Authorization")
		_, _ = w.Write([]byte("<DescribeNetworkInterfacesResponse><requestId>r-1</requestId><networkInterfaceSet/></DescribeNetworkInterfacesResponse>"))
	}))
	defer server.Close()
	if _, _, err := awsec2.New(loaded(t, server.URL), awsec2.Options{Cluster: "c1"}).ListOwned(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(agent, "multieni/v1.2.3") {
		t.Errorf("user agent %q", agent)
	}
	if !strings.Contains(authorization, "/eu-west-3/ec2/") {
		t.Errorf("authorization %q", authorization)
	}
}
