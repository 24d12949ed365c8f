package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"troupe/cluster/natsd"
	"troupe/cluster/recovery"
	"troupe/cluster/reply"
	"troupe/cluster/security"
	"troupe/core/units"
	"troupe/node"
)

// Below these limits the doctor warns.
const (
	lowDiskBytes   = 1 << 30
	lowLockedBytes = 1 << 30
	lowOpenFiles   = 4096
)

func checkVersions(context.Context, settings) []finding {
	return []finding{pass("version",
		fmt.Sprintf("troupe %s, %s, %s/%s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH))}
}

// checkLimits checks the limits of this process on locked memory and open files. A node that the
// same shell or service starts has the same limits.
func checkLimits(context.Context, settings) (all []finding) {
	var lock, files unix.Rlimit
	err := errors.Join(unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lock), unix.Getrlimit(unix.RLIMIT_NOFILE, &files))
	if err != nil {
		return []finding{warn("limits", err.Error(), "see ulimit -a")}
	}
	switch bytes := units.FormatBytes(int64(lock.Cur)); {
	case lock.Cur == unix.RLIM_INFINITY:
		all = append(all, pass("memory lock", "unlimited"))
	case lock.Cur < lowLockedBytes && pciGPUs() > 0:
		all = append(all, warn("memory lock", bytes+" may be locked",
			"ulimit -l unlimited, or LimitMEMLOCK=infinity in the service: GPUs copy from locked memory"))
	default:
		all = append(all, pass("memory lock", bytes))
	}
	if files.Max < lowOpenFiles { // Go raises the soft limit to the hard limit
		return append(all, warn("open files", fmt.Sprintf("%d", files.Max),
			"ulimit -Hn 65536, or LimitNOFILE=65536 in the service: each client needs one"))
	}
	return append(all, pass("open files", fmt.Sprintf("%d", files.Max)))
}

// checkPorts tries the listen addresses of the node. A default that is in use is not a problem: the
// node takes the next free port.
func checkPorts(_ context.Context, s settings) (all []finding) {
	listeners := append([]listener{{"--http", s.HTTP}}, s.nodeListeners()...)
	for _, l := range listeners {
		if strings.HasSuffix(l.addr, ":0") {
			continue // any port
		}
		f := pass("port", l.addr+" is free")
		switch err := tryAddress(l.addr); {
		case errors.Is(err, syscall.EADDRINUSE) && ownNodeListens(s.Data, l.addr):
			f.Text = l.addr + " is in use by the running node"
		case errors.Is(err, syscall.EADDRINUSE) && !s.isExplicit(l.flag):
			f.Text = l.addr + " is in use; the node would take the next free port"
		case err != nil:
			f = fail("port", tryListen(l.flag, l.addr).Error(), "find the process that listens there: ss -ltnp")
		}
		all = append(all, f)
	}
	return all
}

// isExplicit reports whether the address of a listen flag is set rather than a default.
func (s settings) isExplicit(flag string) bool {
	return map[string]string{
		"--http": s.given.HTTP, "--nats-listen": s.given.NATSListen,
		"--nats-cluster-listen": s.given.NATSClusterListen,
		"--cluster-listen":      s.given.ClusterListen, "--data-listen": s.given.DataListen,
	}[flag] != ""
}

// checkNATS connects to the servers of --join as the node would, and checks for JetStream.
func checkNATS(ctx context.Context, s settings) []finding {
	if s.Join == "" {
		return []finding{pass("NATS", "the node starts its own server")}
	}
	cfg := node.Config{Log: zerolog.Nop()}
	if err := s.loadCredentials(&cfg); err != nil {
		return []finding{fail("NATS", err.Error(), "see \"troupe certs\" and \"troupe keys\"")}
	}
	login, err := cfg.Login.Options()
	if err != nil {
		return []finding{fail("NATS", err.Error(), "see --nats-creds and --nats-nkey")}
	}
	shown := security.WithoutSecrets(s.Join)
	conn, err := nats.Connect(s.Join, append(login,
		nats.Name("troupe doctor"), nats.CustomInboxPrefix(reply.PeerInbox), nats.Timeout(requestTimeout))...)
	if err != nil {
		return []finding{fail("NATS", fmt.Sprintf("%s: %v", shown, err),
			security.Remedy(err, "start the node or NATS server there, or correct --join"))}
	}
	defer conn.Close()
	rtt, err := conn.RTT()
	if err != nil {
		return []finding{fail("NATS", fmt.Sprintf("%s: %v", shown, err), "see the log of the NATS server")}
	}
	js, err := jetstream.New(conn)
	if err == nil {
		_, err = js.AccountInfo(ctx)
	}
	if err != nil {
		return []finding{fail("NATS", fmt.Sprintf("%s answers, but has no JetStream for this account: %v", shown, err),
			"enable JetStream in its configuration")}
	}
	return []finding{pass("NATS", fmt.Sprintf("%s answers in %.1f ms, with JetStream",
		conn.ConnectedUrlRedacted(), float64(rtt.Microseconds())/1000))}
}

// checkStore looks for the files of a damaged store that recovery set aside.
func checkStore(_ context.Context, s settings) []finding {
	aside, err := recovery.SetAsideFolders(s.Data)
	if err != nil || len(aside) == 0 {
		return nil
	}
	return []finding{warn("store",
		fmt.Sprintf("the store was damaged and has been restored; the damaged files are in %s", aside[len(aside)-1]),
		"check the disk; remove the folder when you no longer need it")}
}

// checkData checks that the data folder is writable and has space. A running node may hold its lock.
func checkData(_ context.Context, s settings) []finding {
	lock, err := lockData(s.Data)
	held := errors.Is(err, errHeld)
	if err != nil && !held {
		return []finding{fail("data", err.Error(),
			"let this user write there, free space, or choose another folder with --data")}
	}
	if !held {
		defer lock.Close()
	}
	free, err := natsd.FreeBytes(s.Data)
	if err != nil {
		return []finding{warn("data", fmt.Sprintf("%s: %v", s.Data, err), "see df")}
	}
	var needed int64
	if s.Join == "" { // the store is in the data folder
		needed = natsd.DefaultMinFree
	}
	return []finding{dataSpaceFinding(s.Data, free, needed, held)}
}

// dataSpaceFinding compares the free bytes of a data folder with those that the store needs.
func dataSpaceFinding(folder string, free, needed int64, held bool) finding {
	const remedy = "free space, or choose another folder with --data"
	left := units.FormatBytes(free)
	switch {
	case free < needed:
		return fail("data", fmt.Sprintf("%s has %s free; the store needs %s: %s missing",
			folder, left, units.FormatBytes(needed), units.FormatBytes(needed-free)), remedy)
	case free < lowDiskBytes:
		return warn("data", fmt.Sprintf("%s has %s free", folder, left), remedy)
	case held:
		return pass("data", fmt.Sprintf("%s is in use by a running node and has %s free", folder, left))
	}
	return pass("data", fmt.Sprintf("%s is writable and has %s free", folder, left))
}
