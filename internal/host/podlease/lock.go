// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package podlease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/multieni/multieni/internal/core/podnet"
)

const (
	lockName = "lock"
	// LockTime is how long a call of a runtime waits while one process has the lock of a network. Processes have it for
	// milliseconds, so one that has it for longer does not run. A call waits for any number of processes that do run.
	LockTime = 5 * time.Second
	// firstPoll and lastPoll are the times before the second attempt and between later ones. Hundreds of processes can
	// wait at once, and must leave the processor to the one that has the lock.
	firstPoll = time.Millisecond
	lastPoll  = 50 * time.Millisecond
)

// ErrLocked means that another process has had the leases of a network locked for too long.
var ErrLocked = errors.New("another process has them locked")

// Open locks the files of a network in the folder of all networks, and waits while other processes have them locked,
// each for up to [LockTime]. The kernel unlocks them when a process ends.
func Open(pods, network string) (*Store, error) {
	return open(context.Background(), pods, network, true)
}

// OpenContext is like [Open], and waits no longer than until the context ends. With a context that has ended it makes
// one attempt.
func OpenContext(ctx context.Context, pods, network string) (*Store, error) {
	return open(ctx, pods, network, true)
}

// OpenPresent is like [OpenContext], but creates no folder: a network without a folder gives [fs.ErrNotExist].
func OpenPresent(ctx context.Context, pods, network string) (*Store, error) {
	return open(ctx, pods, network, false)
}

func open(ctx context.Context, pods, network string, create bool) (*Store, error) {
	if err := podnet.ValidateName(network); err != nil {
		return nil, fmt.Errorf("open the leases of a network: %w", err)
	}
	for {
		s, err := openOnce(ctx, pods, network, create)
		if err == nil {
			return s, nil
		}
		// another process removed the folder a moment ago
		if removed := errors.Is(err, errRemoved) || create && errors.Is(err, fs.ErrNotExist); removed && ctx.Err() == nil {
			continue
		}
		if errors.Is(err, ErrLocked) {
			err = fmt.Errorf("%w; if it does not end by itself, find it with fuser %s and stop it", err,
				filepath.Join(Dir, network, lockName))
		}
		return nil, fmt.Errorf("open the leases of network %s: %w", network, err)
	}
}

// errRemoved means that another process removed the folder of a network while this one waited for its lock.
var errRemoved = errors.New("its folder was removed")

func openOnce(ctx context.Context, pods, network string, create bool) (*Store, error) {
	folder, err := openFolder(pods, network, create)
	if err != nil {
		return nil, err
	}
	lock, err := openRegular(folder, lockName, os.O_RDONLY|os.O_CREATE) // a read-only disk opens an existing file
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	s := &Store{pods: pods, network: network, folder: folder, lock: lock}
	if err := s.await(ctx); err != nil {
		s.Close()
		return nil, err
	}
	now := time.Now()
	_ = folder.Chtimes(lockName, now, now) // shows others a new holder, except on a read-only disk
	return s, nil
}

// await locks the file, and polls, because a wait in the kernel has no end. It gives up when one process has had the
// lock for too long, or when the context ends.
func (s *Store) await(ctx context.Context) error {
	var holder, since time.Time
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		failure := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if failure != nil && !errors.Is(failure, syscall.EWOULDBLOCK) && !errors.Is(failure, syscall.EINTR) {
			return fmt.Errorf("lock: %w", failure)
		}
		info, err := s.lock.Stat()
		if err != nil {
			return err
		}
		if info.Sys().(*syscall.Stat_t).Nlink == 0 {
			return errRemoved
		}
		if failure == nil {
			return nil
		}
		if !info.ModTime().Equal(holder) || since.IsZero() {
			holder, since = info.ModTime(), time.Now()
		}
		if ctx.Err() != nil || time.Since(since) >= LockTime {
			return ErrLocked
		}
		time.Sleep(poll)
	}
}

// openFolder opens the folder of a network, which is no link to another folder.
func openFolder(pods, network string, create bool) (*os.Root, error) {
	if create {
		if err := os.MkdirAll(pods, 0o755); err != nil {
			return nil, err
		}
	}
	all, err := os.OpenRoot(pods)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	if create {
		if err := all.Mkdir(network, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	info, err := all.Lstat(network)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder: remove it", filepath.Join(pods, network))
	}
	return all.OpenRoot(network)
}

// agentLock is the file next to the folder of all networks that one agent at a time has locked.
const agentLock = "agent.lock"

// LockAgent waits until no other agent of the node has the files, calls waits before it does, and keeps others from
// having them until release is called or the process ends.
func LockAgent(ctx context.Context, pods string, waits func(path string)) (release func(), err error) {
	path := filepath.Join(filepath.Dir(pods), agentLock)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("lock the files of pods: %w", err)
	}
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the files of pods: %w", err)
	}
	for first := true; ; first = false {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = lock.Close() }, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), lock.Close())
		case first:
			waits(path)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), lock.Close())
		case <-time.After(lastPoll):
		}
	}
}
