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

const (
	enoughDisk   = 1 << 30
	enoughLocked = 1 << 30
	enoughFiles  = 4096
)

func checkVersions(context.Context, settings) []finding {
	return []finding{{"version", fine, fmt.Sprintf("troupe %s, %s, %s/%s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH), ""}}
}

// checkLimits looks at what this process may lock and open. Children of the same shell or service get the same.
func checkLimits(context.Context, settings) (all []finding) {
	var lock, files unix.Rlimit
	if err := errors.Join(unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lock), unix.Getrlimit(unix.RLIMIT_NOFILE, &files)); err != nil {
		return []finding{{"limits", odd, err.Error(), "see ulimit -a"}}
	}
	all = append(all, finding{"memory lock", fine, "as much as there is", ""})
	if lock.Cur != unix.RLIM_INFINITY {
		all[0].Text = units.FormatBytes(int64(lock.Cur))
		if lock.Cur < enoughLocked && onBus() > 0 {
			all[0] = finding{"memory lock", odd, all[0].Text + " may be locked", "ulimit -l unlimited, or LimitMEMLOCK=infinity in the service: GPUs copy from locked memory"}
		}
	}
	if files.Max < enoughFiles { // Go raises the limit to the hard one
		return append(all, finding{"open files", odd, fmt.Sprintf("%d", files.Max), "ulimit -Hn 65536, or LimitNOFILE=65536 in the service: each client is one"})
	}
	return append(all, finding{"open files", fine, fmt.Sprintf("%d", files.Max), ""})
}

// checkPorts tries where the node would listen. Where nobody chose, the next port would be taken.
func checkPorts(_ context.Context, s settings) (all []finding) {
	listeners := append([]listener{{"--http", s.HTTP}}, s.nodeListeners()...)
	for _, l := range listeners {
		if strings.HasSuffix(l.addr, ":0") {
			continue // any will do
		}
		f := finding{"port", fine, l.addr + " is free", ""}
		switch err := listens(l.addr); {
		case errors.Is(err, syscall.EADDRINUSE) && ownNodeListens(s.Data, l.addr):
			f.Text = l.addr + " is where the running node listens"
		case errors.Is(err, syscall.EADDRINUSE) && !s.chose(l.flag):
			f = finding{"port", fine, l.addr + " is in use; the next free one would be taken", ""}
		case err != nil:
			f = finding{"port", bad, tryListen(l.flag, l.addr).Error(), "see who listens there: ss -ltnp"}
		}
		all = append(all, f)
	}
	return all
}

// chose reports whether somebody said where to listen.
func (s settings) chose(flag string) bool {
	return map[string]string{
		"--http": s.given.HTTP, "--nats-listen": s.given.NATSListen, "--nats-cluster-listen": s.given.NATSClusterListen,
		"--cluster-listen": s.given.ClusterListen, "--data-listen": s.given.DataListen,
	}[flag] != ""
}

// checkNATS connects where the node would, and looks for JetStream.
func checkNATS(ctx context.Context, s settings) []finding {
	if s.Join == "" {
		return []finding{{"NATS", fine, "this node brings its own", ""}}
	}
	cfg := node.Config{Log: zerolog.Nop()}
	if err := s.secure(&cfg); err != nil {
		return []finding{{"NATS", bad, err.Error(), "see \"troupe certs\" and \"troupe keys\""}}
	}
	login, err := cfg.Login.Options()
	if err != nil {
		return []finding{{"NATS", bad, err.Error(), "see --nats-creds and --nats-nkey"}}
	}
	shown := security.WithoutSecrets(s.Join)
	conn, err := nats.Connect(s.Join, append(login,
		nats.Name("troupe doctor"), nats.CustomInboxPrefix(reply.PeerInbox), nats.Timeout(askWithin))...)
	if err != nil {
		return []finding{{"NATS", bad, fmt.Sprintf("%s: %v", shown, err),
			security.Remedy(err, "start the node or NATS server there, or correct --join")}}
	}
	defer conn.Close()
	rtt, err := conn.RTT()
	if err != nil {
		return []finding{{"NATS", bad, fmt.Sprintf("%s: %v", shown, err), "see the log of the NATS server"}}
	}
	js, err := jetstream.New(conn)
	if err == nil {
		_, err = js.AccountInfo(ctx)
	}
	if err != nil {
		return []finding{{"NATS", bad, fmt.Sprintf("%s answers, but has no JetStream for this account: %v", shown, err), "enable JetStream in its configuration"}}
	}
	return []finding{{"NATS", fine, fmt.Sprintf("%s answers in %.1f ms, with JetStream", conn.ConnectedUrlRedacted(), float64(rtt.Microseconds())/1000), ""}}
}

// checkStore looks for files of a store that was damaged.
func checkStore(_ context.Context, s settings) []finding {
	aside, err := recovery.SetAsideFolders(s.Data)
	if err != nil || len(aside) == 0 {
		return nil
	}
	return []finding{{"store", odd, fmt.Sprintf("the store was damaged, and restored; %s has its files", aside[len(aside)-1]),
		"check the disk; remove the folder when it is of no use any more"}}
}

// checkData looks whether the folder can be written to, by whom it is held, and what room there is.
func checkData(_ context.Context, s settings) []finding {
	lock, err := lockData(s.Data)
	held := errors.Is(err, errHeld)
	if err != nil && !held {
		return []finding{{"data", bad, err.Error(), "let this user write there, make room, or choose another folder with --data"}}
	}
	if !held {
		defer lock.Close()
	}
	free, err := natsd.FreeBytes(s.Data)
	if err != nil {
		return []finding{{"data", odd, fmt.Sprintf("%s: %v", s.Data, err), "see df"}}
	}
	var needed int64
	if s.Join == "" { // the store is in it
		needed = natsd.DefaultMinFree
	}
	return []finding{dataSpace(s.Data, free, needed, held)}
}

// dataSpace judges the space that is free in a data folder.
func dataSpace(folder string, free, needed int64, held bool) finding {
	const remedy = "make room, or choose another folder with --data"
	left := units.FormatBytes(free)
	switch {
	case free < needed:
		return finding{"data", bad, fmt.Sprintf("%s has %s left, and the store needs %s: %s missing",
			folder, left, units.FormatBytes(needed), units.FormatBytes(needed-free)), remedy}
	case free < enoughDisk:
		return finding{"data", odd, fmt.Sprintf("%s has %s left", folder, left), remedy}
	case held:
		return finding{"data", fine, fmt.Sprintf("%s belongs to a node that is running, and has %s left", folder, left), ""}
	}
	return finding{"data", fine, fmt.Sprintf("%s can be written to, and has %s left", folder, left), ""}
}
