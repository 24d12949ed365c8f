package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// tryListen returns an error with a remedy if nothing can listen at the address of a flag.
func tryListen(flag, addr string) error {
	err := tryAddress(addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		_, port, _ := net.SplitHostPort(addr)
		return fmt.Errorf("port %s is in use; stop what listens on %s, or choose another address with %s", port, addr,
			flag)
	}
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w; choose another address with %s", addr, err, flag)
	}
	return nil
}

// tryAddress listens at an address and closes the listener.
func tryAddress(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

// errHeld is returned for a data folder that another node uses.
var errHeld = errors.New("is in use by a running node")

// lockData creates and locks a data folder, until the returned file is closed. It returns errHeld
// if a running node holds the lock.
func lockData(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("data folder %s: %w; choose another with --data", dir, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("data folder %s is not writable: %w; choose another with --data", dir, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("data folder %s %w; stop it, or choose another with --data", dir, errHeld)
	}
	return lock, nil
}
