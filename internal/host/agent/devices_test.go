// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"os"
	"testing"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostpci"
)

// TestADevice binds a device for a program after the API server has the hold, and lets it go after the program ended.
func TestADevice(t *testing.T) {
	n := newNode(t, attached())
	n.change(func(i *v1alpha1.NetworkInterface) {
		i.Spec.DPDK = &v1alpha1.DPDKSettings{Driver: v1alpha1.DPDKDriverVFIO}
	})
	bind := func() bool {
		p, err := n.tryPass()
		if err != nil {
			t.Fatal(err)
		}
		n.answer(p)
		return p.MayBind(device)
	}
	if bind() || !n.objects[0].Status.Node.Open || n.objects[0].Status.Node.Link.PCIAddress != device {
		t.Errorf("the device is bound without a hold: %+v", n.objects[0].Status.Node)
	}
	n.settle()
	if !bind() {
		t.Error("the device is not bound")
	}
	if saved := n.checkpoint(); len(saved) != 1 || saved[0].Device != device {
		t.Errorf("the checkpoint has %+v", saved)
	}
	n.bus.Devices = []hostpci.DeviceFacts{{Address: device, Driver: hostpci.VFIO}}
	n.restart()
	n.remove()
	if report := n.settle(); !report.Open {
		t.Errorf("let go under a program: %+v", report)
	}
	n.bus.Devices[0].Driver = "ena"
	if report := n.settle(); report.Open || len(n.checkpoint()) != 0 {
		t.Errorf("the program ended: %+v, and the checkpoint has %+v", report, n.checkpoint())
	}
}

// TestADeviceIsNotBoundWhileTheDiskIsFull: several passes fail to store the checkpoint that names the device.
func TestADeviceIsNotBoundWhileTheDiskIsFull(t *testing.T) {
	n := newNode(t, attached())
	n.change(func(i *v1alpha1.NetworkInterface) {
		i.Spec.DPDK = &v1alpha1.DPDKSettings{Driver: v1alpha1.DPDKDriverVFIO}
	})
	full := func(is bool) {
		err := os.RemoveAll(n.StateDir)
		if is {
			err = errors.Join(err, os.WriteFile(n.StateDir, nil, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	may := func() (may bool) {
		for range 4 {
			p, _ := n.tryPass() // the error is that of the disk
			n.answer(p)
			if may = p.MayBind(device); !may {
				continue
			}
			if saved := n.checkpoint(); len(saved) != 1 || saved[0].Device != device {
				t.Errorf("the device may be bound, and the checkpoint has %+v", saved)
			}
		}
		return may
	}
	full(true)
	if may() {
		t.Error("the device may be bound, and the disk has no checkpoint")
	}
	full(false)
	if !may() {
		t.Error("the device may not be bound, and the disk has the checkpoint")
	}
}

// TestADeviceThatIsGivenBackStaysRecorded ends the setting of a NodeENI for programs while one drives the device and
// the checkpoint is lost. The report is the only record then, so it must not say that a link is missing.
func TestADeviceThatIsGivenBackStaysRecorded(t *testing.T) {
	n := newNode(t, attached())
	n.change(func(i *v1alpha1.NetworkInterface) {
		i.Spec.DPDK = &v1alpha1.DPDKSettings{Driver: v1alpha1.DPDKDriverVFIO}
	})
	n.settle()
	n.bus.Devices = []hostpci.DeviceFacts{{Address: device, Driver: hostpci.VFIO, Override: hostpci.VFIO, Enabled: true}}
	n.settle()
	if err := os.RemoveAll(n.StateDir); err != nil {
		t.Fatal(err)
	}
	n.change(func(i *v1alpha1.NetworkInterface) { i.Spec.DPDK = nil })
	n.link, n.reason = hostnet.Missing, hostnet.ReasonNotFound
	for range 2 {
		n.restart()
		if report := n.settle(); !report.Open || report.Link.Reason != hostpci.ReasonInUse || report.Link.PCIAddress != device {
			t.Errorf("reported %+v with link %+v, want that a program uses the device", report, report.Link)
		}
	}
	n.bus.Devices = []hostpci.DeviceFacts{{Address: device, Driver: "ena"}}
	n.link, n.reason = hostnet.Ready, "Test"
	if report := n.settle(); report.Open || report.Link.State != v1alpha1.LinkReady {
		t.Errorf("the device is given back: %+v with link %+v", report, report.Link)
	}
}
