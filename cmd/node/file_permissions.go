package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// kept is a file that others must not change.
type sensitiveFile struct {
	flag, path string
	secret     bool // nor read
}

// permissionFindings finds files with rights that others should not have.
func (s settings) permissionFindings() (all []finding) {
	for _, f := range []sensitiveFile{
		{"--nats-nkey", s.NATSNkey, true}, {"--nats-creds", s.NATSCreds, true}, {"--nats-users", s.NATSUsers, true},
		{"--api-keys", s.APIKeys, true}, {"--tls-key", s.TLSKey, true}, {"--http-tls-key", s.HTTPTLSKey, true},
		{"--tls-cert", s.TLSCert, false}, {"--http-tls-cert", s.HTTPTLSCert, false},
		{"--tls-ca", s.TLSCA, false}, {"--tls-revoked", s.TLSRevoked, false},
	} {
		if f.path != "" {
			all = append(all, f.findings()...)
		}
	}
	if s.config != "" {
		all = append(all, configFindings(s.config)...)
	}
	return all
}

// loose finds what is wrong with the rights to a file and to the folders that it is in.
func (f sensitiveFile) findings() (all []finding) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil // the error is reported where the file is read
	}
	add := func(how state, remedy, format string, args ...any) {
		all = append(all, finding{"files", how, f.flag + " " + f.path + " " + fmt.Sprintf(format, args...), remedy})
	}
	for _, dir := range parentFolders(f.path) {
		if why, how := writableByOthers(dir.info, dir.direct); why != "" {
			add(how, "chmod go-w "+dir.path, "can be replaced by others: the folder %s %s", dir.path, why)
		}
	}
	if why, how := writableByOthers(info, true); why != "" {
		add(how, "chmod 600 "+f.path+", and chown it to the user of the node", "can be changed by others: it %s", why)
	} else if f.secret && info.Mode().Perm()&0o044 != 0 {
		add(stateWarning, "chmod 600 "+f.path, "can be read by others")
	}
	return all
}

// configFindings is loose for the configuration file, which a group may edit.
func configFindings(path string) []finding {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil
	case info.Mode().Perm()&0o002 != 0:
		return []finding{
			{
				"files",
				stateFix,
				fmt.Sprintf("--config %s can be changed by everybody on this machine", path),
				"chmod o-w " + path,
			},
		}
	}
	if dir, err := os.Stat(filepath.Dir(path)); err == nil && dir.Mode().Perm()&0o002 != 0 &&
		dir.Mode()&os.ModeSticky == 0 {
		return []finding{
			{
				"files",
				stateFix,
				fmt.Sprintf(
					"--config %s can be replaced by everybody on this machine: so can all in %s",
					path,
					filepath.Dir(path),
				),
				"chmod o-w " + filepath.Dir(path),
			},
		}
	}
	return nil
}

// writableByOthers says how others may write to a file or folder, and how grave that is; empty: they may
// not. In a sticky folder others cannot replace files. Groups count where strict. Another owner is
// a warning: containers often have files of another user.
func writableByOthers(info os.FileInfo, strict bool) (why string, how state) {
	mode := info.Mode()
	if mode.IsDir() && mode&os.ModeSticky != 0 {
		return "", stateOK
	}
	switch {
	case mode.Perm()&0o002 != 0:
		return "can be written by everybody", stateFix
	case strict && mode.Perm()&0o020 != 0:
		return "can be written by its group", stateFix
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return fmt.Sprintf("belongs to user %d", owner.Uid), stateWarning
	}
	return "", stateOK
}

// folder is one that a file is in, directly or not.
type parentFolder struct {
	path   string
	direct bool
	info   os.FileInfo
}

// parentFolders are the folders of a file, and those of what it links to.
func parentFolders(path string) (all []parentFolder) {
	seen := map[string]bool{}
	add := func(file string) {
		for dir, direct := filepath.Dir(file), true; !seen[dir]; dir, direct = filepath.Dir(dir), false {
			seen[dir] = true
			if info, err := os.Stat(dir); err == nil {
				all = append(all, parentFolder{dir, direct, info})
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
