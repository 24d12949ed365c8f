package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// tryListen finds out whether an address is free, while nothing has been started.
func tryListen(flag, addr string) error {
	err := tryAddress(addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		_, port, _ := net.SplitHostPort(addr)
		return fmt.Errorf("port %s is in use; stop what listens on %s, or choose another address with %s", port, addr, flag)
	}
	if err != nil {
		return fmt.Errorf("can not listen on %s: %w; choose another address with %s", addr, err, flag)
	}
	return nil
}

// tryAddress tries an address.
func tryAddress(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

// errHeld: another node uses a data folder.
var errHeld = errors.New("belongs to a node that is running")

// lockData makes sure that the folder can be written to and that no other node does.
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
