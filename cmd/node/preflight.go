package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// preflight finds out what would stop the node from starting, while nothing has been started. It returns
// the data folder's lock, which the node holds until it ends.
func preflight(s settings) (*os.File, error) {
	for _, l := range []struct{ flag, addr string }{{"--http", s.HTTP}, {"--nats-listen", s.NATSListen}} {
		if err := tryListen(l.flag, l.addr); err != nil {
			return nil, err
		}
	}
	return lockData(s.Data)
}

func tryListen(flag, addr string) error {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		_, port, _ := net.SplitHostPort(addr)
		return fmt.Errorf("port %s is in use; stop what listens on %s, or choose another address with %s", port, addr, flag)
	}
	if err != nil {
		return fmt.Errorf("can not listen on %s: %w; choose another address with %s", addr, err, flag)
	}
	return l.Close()
}

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
		return nil, fmt.Errorf("data folder %s belongs to a node that is running; stop it, or choose another with --data", dir)
	}
	return lock, nil
}
