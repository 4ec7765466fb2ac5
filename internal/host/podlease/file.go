// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package podlease

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/multieni/multieni/internal/core/podnet"
)

// The agent has less permissions on the node than the CNI program, and can write both folders. So the program follows
// no link out of a folder, waits for no file, and reads no more of one than a valid file can have.

// errIrregular means that a name leads to no regular file.
var errIrregular = errors.New("no regular file")

// read reads a file of a folder, at most one byte more than [podnet.MaxSize].
func read(folder *os.Root, name string) ([]byte, error) {
	file, err := openRegular(folder, name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, podnet.MaxSize+1))
}

// openRegular opens a regular file, without a wait for the other end of a pipe.
func openRegular(folder *os.Root, name string, flags int) (*os.File, error) {
	irregular := fmt.Errorf("%s: %w", filepath.Join(folder.Name(), name), errIrregular)
	info, err := folder.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, irregular
	}
	if err != nil && (!errors.Is(err, fs.ErrNotExist) || flags&os.O_CREATE == 0) {
		return nil, err
	}
	file, err := folder.OpenFile(name, flags|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, err
	}
	if info, err = file.Stat(); err == nil && !info.Mode().IsRegular() { // another program replaced it a moment ago
		err = irregular
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// write writes a draft next to a file and renames it, so that readers see the former file or the whole new one. One
// process at a time may write a file.
func write(folder *os.Root, name string, text []byte) error {
	draft := draftPrefix + name + draftSuffix
	if err := folder.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := folder.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err == nil {
		err = folder.Rename(draft, name)
	}
	if err != nil {
		return errors.Join(err, folder.Remove(draft))
	}
	return nil
}
