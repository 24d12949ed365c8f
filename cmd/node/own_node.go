package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ownNodeListens reports whether the node that holds a data folder listens at an address: one
// process has both the folder's lock file and the socket open. It is false if /proc cannot tell.
func ownNodeListens(data, addr string) bool {
	lock, err := os.Stat(filepath.Join(data, "lock"))
	if err != nil {
		return false
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	sockets := listening(port)
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return false
	}
	for _, process := range processes {
		if hasBoth(filepath.Join(process, "fd"), lock, sockets) {
			return true
		}
	}
	return false
}

// hasBoth reports whether a folder of file descriptors contains a file and one of the sockets. It
// is false for a process that has exited or belongs to another user.
func hasBoth(fds string, file os.FileInfo, sockets map[string]bool) bool {
	entries, err := os.ReadDir(fds)
	if err != nil {
		return false
	}
	hasFile, hasSocket := false, false
	for _, e := range entries {
		path := filepath.Join(fds, e.Name())
		if link, err := os.Readlink(path); err == nil && sockets[link] {
			hasSocket = true
		}
		if info, err := os.Stat(path); err == nil && os.SameFile(info, file) {
			hasFile = true
		}
	}
	return hasFile && hasSocket
}

// listening returns the sockets that listen on a port, as the links in /proc/PID/fd name them.
func listening(port string) map[string]bool {
	const listen = "0A" // TCP_LISTEN in the column st
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil
	}
	suffix, found := fmt.Sprintf(":%04X", number), map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue // not Linux, or no IPv6
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			columns := strings.Fields(lines.Text())
			if len(columns) > 9 && strings.HasSuffix(columns[1], suffix) && columns[3] == listen {
				found["socket:["+columns[9]+"]"] = true
			}
		}
		f.Close()
	}
	return found
}
