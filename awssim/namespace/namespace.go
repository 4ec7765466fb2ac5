// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package namespace creates Linux network namespaces, in which a simulated instance has its own links.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Namespace is a network namespace. It ends when it is closed and nothing is left in it.
type Namespace struct{ file *os.File }

// Possible returns why no namespace can be created here, or nil.
func Possible() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return errors.New("network namespaces need the program ip of iproute2")
	}
	n, err := New()
	if err != nil {
		return err
	}
	return n.Close()
}

// New creates a network namespace with only a loopback link, which is up.
func New() (*Namespace, error) {
	n := &Namespace{}
	var err error
	onThread(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			n.file, err = os.Open("/proc/thread-self/ns/net")
		}
	})
	if err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	if _, err := n.IP("link set lo up"); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Open opens the network namespace that a file such as /run/netns/NAME leads into.
func Open(path string) (*Namespace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open a network namespace: %w", err)
	}
	return &Namespace{file}, nil
}

// Close releases the namespace.
func (n *Namespace) Close() error { return n.file.Close() }

// Path is a file that leads other programs into the namespace for as long as this one runs.
func (n *Namespace) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd()) }

// Do runs f on a thread in the namespace. Goroutines that f starts run in other namespaces.
func (n *Namespace) Do(f func()) error {
	var err error
	onThread(func() {
		if err = unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err == nil {
			f()
		}
	})
	if err != nil {
		return fmt.Errorf("enter the network namespace: %w", err)
	}
	return nil
}

// onThread runs f on a new thread, which ends with f: changes that f makes to the thread affect no other code.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(done)
		f()
	}()
	<-done
}

// IP runs ip(8) in the namespace with the arguments, which are separated by spaces, and returns what it prints.
func (n *Namespace) IP(arguments string) (string, error) {
	var output []byte
	var failure error
	err := n.Do(func() {
		output, failure = exec.CommandContext(context.Background(), "ip", strings.Fields(arguments)...).CombinedOutput()
	})
	if failure != nil {
		failure = fmt.Errorf("ip %s: %w: %s", arguments, failure, output)
	}
	return string(output), errors.Join(err, failure)
}

// Attach attaches an interface with the MAC address to the node of the namespace, as EC2 does: a link appears there,
// and is down. Its other end appears in the VPC under the name peer, and is up.
func (n *Namespace) Attach(name, mac string, vpc *Namespace, peer string) error {
	if _, err := n.IP(fmt.Sprintf("link add %s address %s type veth peer name %s netns %s", name, mac, peer,
		vpc.Path())); err != nil {
		return err
	}
	_, err := vpc.IP(fmt.Sprintf("link set %s mtu 9001 up", peer))
	return err
}
