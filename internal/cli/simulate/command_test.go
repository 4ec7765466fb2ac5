// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/multieni/multieni/internal/cli/simulate"
)

// running is an awssim that a test can interrupt.
type running struct {
	t         *testing.T
	url       string
	progress  *bytes.Buffer
	interrupt context.CancelFunc
	ended     chan error
}

// prints matches what awssim prints: lines for a shell that lead a program to it.
var prints = regexp.MustCompile(`^export AWS_ENDPOINT_URL=(http://127\.0\.0\.1:\d+) AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1
export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any
$`)

func start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	output, input := io.Pipe()
	r := &running{t: t, progress: &bytes.Buffer{}, interrupt: interrupt, ended: make(chan error, 1)}
	command := simulate.New()
	command.SetArgs(append([]string{"--listen", "127.0.0.1:0"}, args...))
	command.SetOut(input)
	command.SetErr(r.progress)
	go func() { r.ended <- command.ExecuteContext(ctx) }()
	text := make([]byte, 1000)
	n, err := output.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	words := prints.FindSubmatch(text[:n])
	if words == nil {
		t.Fatalf("unexpected: %q", text[:n])
	}
	r.url = string(words[1])
	return r
}

func (r *running) stop() {
	r.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	r.interrupt()
	if err := <-r.ended; err != nil {
		r.t.Error(err)
	}
}

// call makes a call to EC2, and returns its answer without the ID of the request.
func (r *running) call(action string, parameters url.Values) string {
	r.t.Helper()
	form := url.Values{"Action": {action}, "Version": {"2016-11-15"}}
	for name, values := range parameters {
		form[name] = values
	}
	return regexp.MustCompile(`<requestId>[^<]*</requestId>`).ReplaceAllString(r.post("/", form.Encode(), http.StatusOK), "")
}

func (r *running) post(path, body string, want int) string {
	r.t.Helper()
	response, err := http.Post(r.url+path, "application/x-www-form-urlencoded", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if response.StatusCode != want {
		r.t.Errorf("%s: %s, want %d: %s", path, response.Status, want, text)
	}
	return string(text)
}

// awssim prints how to reach it in the syntax of a shell, serves there, and leaves nothing behind.
func TestServes(t *testing.T) {
	defer goleak.VerifyNone(t)
	sim := start(t)
	if answer := sim.call("DescribeSubnets", nil); !strings.Contains(answer, "subnet-0f59b4f14737be9ad") {
		t.Errorf("DescribeSubnets: %s", answer)
	}
	if answer := sim.post("/_sim/save", "", http.StatusBadRequest); !strings.Contains(answer, "--state FILE") {
		t.Errorf("save without a file: %s", answer)
	}
	sim.stop()
}

// What a simulator held when it was interrupted, the next one has.
func TestGoesOnFromItsFile(t *testing.T) {
	defer goleak.VerifyNone(t)
	file := filepath.Join(t.TempDir(), "aws.json")
	request := url.Values{"SubnetId": {"subnet-0f59b4f14737be9ad"}, "ClientToken": {"once"}, "Description": {"kept"}}
	first := start(t, "--state", file)
	first.call("CreateNetworkInterface", request)
	made := first.call("CreateNetworkInterface", request)
	first.stop()

	second := start(t, "--state", file)
	if again := second.call("CreateNetworkInterface", request); again != made {
		t.Errorf("the token finds another interface:\n%s\nwas\n%s", again, made)
	}
	second.stop()
	if !strings.Contains(second.progress.String(), "goes on from "+file) {
		t.Errorf("it says %q", second.progress)
	}
}

// POST /_sim/save saves at once: also a simulator that is killed afterwards has lost nothing.
func TestSavesOnRequest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "aws.json")
	sim := start(t, "--state", file)
	sim.call("CreateNetworkInterface", url.Values{"SubnetId": {"subnet-0f59b4f14737be9ad"}, "Description": {"kept"}})
	sim.post("/_sim/save", "", http.StatusNoContent)
	saved, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(saved, []byte(`"kept"`)) {
		t.Errorf("the file has no interface, %v", err)
	}
	sim.stop()
}

// A file that is no state that this awssim reads is refused with the place and the next step, and stays as it is.
func TestRefusedState(t *testing.T) {
	for name, row := range map[string]struct {
		change func(state string) string
		want   []string
	}{
		"of a later version": {func(s string) string { return strings.Replace(s, `"version": 1`, `"version": 2`, 1) },
			[]string{"version 2", "up to version 1", "use the awssim that wrote it"}},
		"cut off":          {func(s string) string { return s[:len(s)/2] }, []string{"line ", "damaged"}},
		"empty":            {func(string) string { return "" }, []string{"is empty"}},
		"another JSON":     {func(string) string { return `{"region": "us-east-1"}` }, []string{"no version"}},
		"a world":          {func(string) string { return "region: us-east-1\n" }, []string{"line 1", "damaged"}},
		"an unknown field": {func(s string) string { return strings.Replace(s, `"requests"`, `"requestz"`, 1) }, []string{"requestz"}},
		"another type": {func(s string) string { return strings.Replace(s, `"machineTime": "`, `"machineTime": "x`, 1) },
			[]string{"line ", "damaged"}},
		"an interface without subnet": {func(s string) string {
			return strings.ReplaceAll(s, `"subnetId": "subnet-0aa0000000000000a"`, `"subnetId": "subnet-0aa0000000000000f"`)
		}, []string{"damaged", "subnet-0aa0000000000000"}},
		"an event of an unknown kind": {func(s string) string {
			return strings.Replace(s, `"planned": [`, `"planned": [{"at":"2026-01-01T00:00:00Z","sequence":1,"kind":"ec2.boom","data":""},`, 1)
		}, []string{"ec2.boom"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "aws.json")
			start(t, "--state", file).stop()
			state, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			damaged := row.change(string(state))
			if damaged == string(state) {
				t.Fatal("the test changes nothing")
			}
			if err := os.WriteFile(file, []byte(damaged), 0o600); err != nil {
				t.Fatal(err)
			}
			refused(t, append(row.want, file, "the file is unchanged", "--state"), "--state", file)
			if now, err := os.ReadFile(file); err != nil || string(now) != damaged {
				t.Errorf("the file has changed, %v", err)
			}
		})
	}
}

// refused starts an awssim that must refuse its arguments with an error that has all words.
func refused(t *testing.T, words []string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := simulate.New()
	command.SetArgs(append([]string{"--listen", "127.0.0.1:0"}, args...))
	command.SetOut(io.Discard)
	command.SetErr(io.Discard)
	err := command.ExecuteContext(ctx)
	if err == nil {
		t.Fatal("no error")
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error has no %q: %v", word, err)
		}
	}
}

// Arguments that cannot be are refused before anything starts.
func TestRefusedArguments(t *testing.T) {
	dir := t.TempDir()
	state, world := filepath.Join(dir, "aws.json"), filepath.Join(dir, "world.yaml")
	start(t, "--state", state).stop()
	if err := os.WriteFile(world, []byte("region: eu-west-1\navailabilityZones: [{zoneName: eu-west-1a, zoneId: euw1-az1}]\nvpcs: []\nsubnets: []\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	typo := filepath.Join(dir, "typo.yaml")
	if err := os.WriteFile(typo, []byte("region: eu-west-1\navailabilityZones:\n- {zoneName: eu-west-1a, zoneIdd: euw1-az1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for name, row := range map[string]struct {
		args, want []string
	}{
		"no speed":                     {[]string{"--speed", "0"}, []string{"--speed is 0", "above 0"}},
		"no such world":                {[]string{"--world", "no-such-file"}, []string{"no-such-file"}},
		"a member that no world has":   {[]string{"--world", typo}, []string{typo, "line 3", "zoneIdd", "example.yaml"}},
		"a state of another world":     {[]string{"--state", state, "--world", world}, []string{state, world, "leave out --world"}},
		"a state of another seed":      {[]string{"--state", state, "--seed", "7"}, []string{state, "seed 1", "leave out --seed"}},
		"a folder that does not exist": {[]string{"--state", filepath.Join(dir, "no", "aws.json")}, []string{"save the state", "no such file"}},
		"an address in use":            {[]string{"--listen", busy.Addr().String()}, []string{busy.Addr().String(), "--listen"}},
		"an argument":                  {[]string{"fast"}, []string{"fast"}},
	} {
		t.Run(name, func(t *testing.T) { refused(t, row.want, row.args...) })
	}
}

// A state goes on with the world and the seed that it began from, given again or not.
func TestTheSameWorldAgain(t *testing.T) {
	dir := t.TempDir()
	state, world := filepath.Join(dir, "aws.json"), filepath.Join(dir, "world.yaml")
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "awssim", "worlds", "example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(world, text, 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, "--state", state, "--world", world, "--seed", "3").stop()
	start(t, "--state", state, "--world", world, "--seed", "3").stop()
	start(t, "--state", state).stop()
}
