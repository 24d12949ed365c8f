package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rs/zerolog"
)

// careless returns what in the settings lets others in: findings that are bad keep a node from starting, the others are
// warnings. With --insecure all are warnings.
func (s settings) careless() []finding {
	all := append(s.exposed(), s.looseFiles()...)
	if os.Geteuid() == 0 {
		all = append(all, finding{"user", odd, "the node runs as root, which it does not need", "run it as a user of its own that may use the GPUs"})
	}
	if s.insecure() {
		for i := range all {
			all[i].State = odd
		}
	}
	return all
}

// refuse returns the first finding that keeps a node from starting.
func (s settings) refuse() error {
	for _, f := range s.careless() {
		if f.State == bad {
			return fmt.Errorf("%s; %s", f.Text, f.Remedy)
		}
	}
	return nil
}

// warn logs what should be mended.
func (s settings) warn(log zerolog.Logger) {
	for _, f := range s.careless() {
		log.Warn().Str("check", f.Check).Str("remedy", f.Remedy).Msg(f.Text)
	}
}

// checkSetup says what "node up" refuses or warns about.
func checkSetup(_ context.Context, s settings) []finding {
	if all := s.careless(); len(all) > 0 {
		return all
	}
	return []finding{{"set-up", fine, "nobody is let in unknown, and no key can be changed by others", ""}}
}

// exposed finds addresses that others reach without being known, or on which secrets can be read.
func (s settings) exposed() (all []finding) {
	if beyond(s.HTTP) && s.APIKeys == "" {
		all = append(all, finding{"exposed", bad,
			fmt.Sprintf("--http %s is reached from other machines, and everybody there could use the models", s.HTTP),
			fmt.Sprintf(`give keys out with --api-keys ("node keys new" makes one), listen on %s, or say --insecure`, defaultHTTP)})
	}
	if beyond(s.HTTP) && s.APIKeys != "" && s.HTTPTLSCert == "" && (s.HTTPBehindTLS == nil || !*s.HTTPBehindTLS) {
		all = append(all, finding{"exposed", bad,
			fmt.Sprintf("--http %s takes API keys from other machines over plain HTTP, where others can read them", s.HTTP),
			fmt.Sprintf("serve HTTPS with --http-tls-cert and --http-tls-key, give --http-behind-tls if a proxy in front has TLS, "+
				"listen on %s, or say --insecure", defaultHTTP)})
	}
	if s.MetricsListen != "" && beyond(s.MetricsListen) && s.APIKeys == "" {
		all = append(all, finding{"exposed", bad,
			fmt.Sprintf("--metrics-listen %s is reached from other machines, and everyone there could read the names of the models", s.MetricsListen),
			fmt.Sprintf(`give keys out with --api-keys ("node keys new --admin" makes one), listen on %s, or say --insecure`, thisMachine)})
	}
	for _, l := range s.nodeListeners() {
		if beyond(l.addr) && s.TLSCert == "" {
			all = append(all, finding{"exposed", bad,
				fmt.Sprintf("%s %s is reached from other machines, and everybody there could pass for a node", l.flag, l.addr),
				fmt.Sprintf(`give certificates with --tls-cert, --tls-key and --tls-ca ("node certs" makes them), listen on %s, or say --insecure`, thisMachine)})
		}
	}
	if s.NATSListen != "" && beyond(s.NATSListen) && s.TLSCert != "" && s.NATSUsers == "" {
		all = append(all, finding{"exposed", bad,
			fmt.Sprintf("--nats-listen %s is reached from other machines, and every certificate of the CA, a client's too, may do everything there", s.NATSListen),
			fmt.Sprintf(`say who may do what with --nats-users and --nats-nkey ("node keys nkey" makes one), listen on %s, or say --insecure`, thisMachine)})
	}
	return all
}

// kept is a file that others must not change.
type kept struct {
	flag, path string
	secret     bool // nor read
}

// looseFiles finds files with rights that others should not have.
func (s settings) looseFiles() (all []finding) {
	for _, f := range []kept{
		{"--nats-nkey", s.NATSNkey, true}, {"--nats-creds", s.NATSCreds, true}, {"--nats-users", s.NATSUsers, true},
		{"--api-keys", s.APIKeys, true}, {"--tls-key", s.TLSKey, true}, {"--http-tls-key", s.HTTPTLSKey, true},
		{"--tls-cert", s.TLSCert, false}, {"--tls-ca", s.TLSCA, false}, {"--tls-revoked", s.TLSRevoked, false}, {"--http-tls-cert", s.HTTPTLSCert, false},
	} {
		if f.path != "" {
			all = append(all, f.loose()...)
		}
	}
	if s.config != "" {
		all = append(all, looseConfig(s.config)...)
	}
	return all
}

// loose finds what is wrong with the rights to a file and to the folders that it is in.
func (f kept) loose() (all []finding) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil // who opens it says so
	}
	for _, dir := range parents(f.path) {
		if why, how := writable(dir.info, dir.direct); why != "" {
			all = append(all, finding{"files", how,
				fmt.Sprintf("%s %s can be replaced by others: the folder %s %s", f.flag, f.path, dir.path, why), "let nobody else write there: chmod go-w " + dir.path})
		}
	}
	if why, how := writable(info, true); why != "" {
		all = append(all, finding{"files", how, fmt.Sprintf("%s %s can be changed by others: it %s", f.flag, f.path, why), "chmod 600 " + f.path + ", and chown it to the user of the node"})
	} else if f.secret && info.Mode().Perm()&0o044 != 0 {
		all = append(all, finding{"files", odd, fmt.Sprintf("%s %s can be read by others", f.flag, f.path), "chmod 600 " + f.path})
	}
	return all
}

// looseConfig is loose for the configuration file, which a group may edit.
func looseConfig(path string) []finding {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil
	case info.Mode().Perm()&0o002 != 0:
		return []finding{{"files", bad, fmt.Sprintf("--config %s can be changed by everybody on this machine", path), "chmod o-w " + path}}
	}
	if dir, err := os.Stat(filepath.Dir(path)); err == nil && dir.Mode().Perm()&0o002 != 0 && dir.Mode()&os.ModeSticky == 0 {
		return []finding{{"files", bad, fmt.Sprintf("--config %s can be replaced by everybody on this machine: so can all in %s", path, filepath.Dir(path)),
			"chmod o-w " + filepath.Dir(path)}}
	}
	return nil
}

// writable says how others may write to a file or folder, and how grave that is; empty: they may not. In a sticky folder others
// cannot replace files. Groups count where strict. Another owner is a warning: containers often have files of another user.
func writable(info os.FileInfo, strict bool) (why string, how state) {
	mode := info.Mode()
	if mode.IsDir() && mode&os.ModeSticky != 0 {
		return "", fine
	}
	switch {
	case mode.Perm()&0o002 != 0:
		return "can be written by everybody", bad
	case strict && mode.Perm()&0o020 != 0:
		return "can be written by its group", bad
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return fmt.Sprintf("belongs to user %d", owner.Uid), odd
	}
	return "", fine
}

// folder is one that a file is in, directly or not.
type folder struct {
	path   string
	direct bool
	info   os.FileInfo
}

// parents are the folders of a file, and those of what it links to.
func parents(path string) (all []folder) {
	seen := map[string]bool{}
	add := func(file string) {
		for dir, direct := filepath.Dir(file), true; !seen[dir]; dir, direct = filepath.Dir(dir), false {
			seen[dir] = true
			if info, err := os.Stat(dir); err == nil {
				all = append(all, folder{dir, direct, info})
			}
		}
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	add(absolute)
	if target, err := filepath.EvalSymlinks(absolute); err == nil && target != absolute {
		add(target)
	}
	return all
}
