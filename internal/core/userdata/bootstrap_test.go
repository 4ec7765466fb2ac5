// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/userdata"
)

// machine is a folder that represents the root of a node's file system, with programs that only record their calls.
type machine struct {
	t    *testing.T
	root string
}

// served is the content at the URL of the program.
const served = "the program"

func newMachine(t *testing.T) machine {
	t.Helper()
	for _, tool := range []string{"bash", "sha256sum", "install", "sed"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s", tool)
		}
	}
	m := machine{t, t.TempDir()}
	m.write("bin/systemctl", "#!/bin/bash\necho \"$@\" >>"+m.root+"/systemctl.log\n")
	m.write("bin/curl", "#!/bin/bash\nwhile [ \"$1\" != -o ]; do shift; done\necho loading >>"+m.root+"/curl.log\nprintf '"+served+"' >\"$2\"\n")
	m.write("etc/systemd/system/kubelet.service", "[Service]\nExecStart=/usr/bin/kubelet $KUBELET_ARGS $KUBELET_EXTRA_ARGS\n")
	m.write("usr/local/bin/.keep", "")
	return m
}

func (m machine) write(path, text string) {
	m.t.Helper()
	path = filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

func (m machine) read(path string) string {
	text, err := os.ReadFile(filepath.Join(m.root, path))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// run runs a script as root of the machine would.
func (m machine) run(script string) (string, error) {
	script = strings.NewReplacer("/etc/", m.root+"/etc/", "/usr/local/", m.root+"/usr/local/").Replace(script)
	command := exec.Command("bash", "-c", script)
	command.Env = []string{"PATH=" + m.root + "/bin:" + os.Getenv("PATH")}
	out, err := command.CombinedOutput()
	return string(out), err
}

// boot runs the first script of the user data, as cloud-init does.
func (m machine) boot(b userdata.Bootstrap) {
	m.t.Helper()
	text, err := b.Render()
	if err != nil {
		m.t.Fatal(err)
	}
	parts, err := userdata.Split(text)
	if err != nil {
		m.t.Fatal(err)
	}
	if out, err := m.run(parts[0].Body); err != nil {
		m.t.Fatalf("%v: %s", err, out)
	}
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// The kubelet's unit requires ours before any step that can fail.
func TestTheScriptInstallsAndStartsTheUnit(t *testing.T) {
	for family, kubelet := range map[userdata.Family]string{userdata.AL2: "kubelet.service", userdata.AL2023: "nodeadm-run.service"} {
		for policy, need := range map[string]string{userdata.Fail: "RequiredBy=", userdata.Taint: "RequiredBy=", userdata.Continue: "WantedBy="} {
			t.Run(fmt.Sprint(family, policy), func(t *testing.T) {
				m := newMachine(t)
				m.boot(userdata.Bootstrap{Family: family, Networks: "cluster: 'it''s $HOME `x`'\n", OnFailure: policy})
				if got := m.read("etc/multieni/networks.yaml"); got != "cluster: 'it''s $HOME `x`'\n" {
					t.Errorf("the networks are %q", got)
				}
				unit := m.read("etc/systemd/system/eni-bootstrap.service")
				for _, line := range []string{need + kubelet, "Before=" + kubelet} {
					if !strings.Contains(unit, line+"\n") {
						t.Errorf("the unit has no %s:\n%s", line, unit)
					}
				}
				if diff := cmp.Diff("enable eni-bootstrap.service\ndaemon-reload\nstart eni-bootstrap.service\n", m.read("systemctl.log")); diff != "" {
					t.Errorf("systemctl (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// On Amazon Linux 2 the kubelet takes our flags once, even if the script runs several times.
func TestTheKubeletTakesOurFlags(t *testing.T) {
	m := newMachine(t)
	for range 2 {
		m.boot(userdata.Bootstrap{Family: userdata.AL2, InstanceTags: true, OnFailure: userdata.Fail})
	}
	if got := m.read("etc/systemd/system/kubelet.service"); !strings.HasSuffix(got, " $KUBELET_EXTRA_ARGS $MULTIENI_KUBELET_ARGS\n") {
		t.Error(got)
	}
	if got := m.read("etc/systemd/system/kubelet.service.d/40-multieni.conf"); !strings.Contains(got, "EnvironmentFile=-") {
		t.Error(got)
	}
}

// The program is downloaded once, and never runs if its SHA-256 differs.
func TestTheProgramIsLoaded(t *testing.T) {
	m := newMachine(t)
	b := userdata.Bootstrap{Family: userdata.AL2023, Networks: "x\n", OnFailure: userdata.Fail, ProgramURL: "https://x/eni-bootstrap", ProgramSHA256: sum(served)}
	m.boot(b)
	load := m.read("etc/multieni/load")
	for range 2 {
		if out, err := exec.Command("env", "PATH="+m.root+"/bin:"+os.Getenv("PATH"), "bash", "-c", load).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if got := m.read("usr/local/bin/eni-bootstrap"); got != served || m.read("curl.log") != "loading\n" {
		t.Errorf("it loaded %q, %q", got, m.read("curl.log"))
	}
	m = newMachine(t)
	b.ProgramSHA256 = sum("another")
	m.boot(b)
	out, err := exec.Command("env", "PATH="+m.root+"/bin:"+os.Getenv("PATH"), "bash", "-c", m.read("etc/multieni/load")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "SHA-256") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(m.root + "/usr/local/bin/eni-bootstrap"); err == nil {
		t.Error("another program is installed")
	}
}

// Joined user data can be split again.
func TestPartsSurvive(t *testing.T) {
	parts := []userdata.Part{{Kind: userdata.KindScript, Body: "#!/bin/sh\n\ntrue"}, {Kind: userdata.KindCloudConfig, Body: "#cloud-config\n{}"}}
	got, err := userdata.Split(userdata.MIME(parts))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parts, got); diff != "" {
		t.Errorf("(-in +out):\n%s", diff)
	}
}
