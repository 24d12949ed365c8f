package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// sensitiveFile is a file that other users must not change.
type sensitiveFile struct {
	flag, path string
	secret     bool // other users must not read it either
}

// permissionFindings finds key and configuration files with permissions that are too wide.
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

// findings checks the permissions of the file and of its parent folders.
func (f sensitiveFile) findings() (all []finding) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil // reported where the file is read
	}
	add := func(severity state, remedy, format string, args ...any) {
		text := f.flag + " " + f.path + " " + fmt.Sprintf(format, args...)
		all = append(all, finding{"files", severity, text, remedy})
	}
	for _, dir := range parentFolders(f.path) {
		if reason, severity := writableByOthers(dir.info, dir.direct); reason != "" {
			add(severity, "chmod go-w "+dir.path, "can be replaced by others: the folder %s %s", dir.path, reason)
		}
	}
	if reason, severity := writableByOthers(info, true); reason != "" {
		remedy := "chmod 600 " + f.path + ", and chown it to the user of the node"
		add(severity, remedy, "can be changed by others: it %s", reason)
	} else if f.secret && info.Mode().Perm()&0o044 != 0 {
		add(stateWarning, "chmod 600 "+f.path, "can be read by others")
	}
	return all
}

// configFindings checks the permissions of the configuration file, which its group may write.
func configFindings(path string) []finding {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	if info.Mode().Perm()&0o002 != 0 {
		return []finding{fail("files", fmt.Sprintf("--config %s can be changed by every user of this machine", path),
			"chmod o-w "+path)}
	}
	parent := filepath.Dir(path)
	dir, err := os.Stat(parent)
	if err == nil && dir.Mode().Perm()&0o002 != 0 && dir.Mode()&os.ModeSticky == 0 {
		return []finding{fail("files",
			fmt.Sprintf("--config %s can be replaced by every user of this machine: %s is writable", path, parent),
			"chmod o-w "+parent)}
	}
	return nil
}

// writableByOthers returns why other users can write to a file or folder, and how severe that is. The
// reason is empty if they cannot. In a sticky folder they cannot replace files of another user. Group
// permissions count only if strict. A different owner is a warning: containers often have files of
// another user.
func writableByOthers(info os.FileInfo, strict bool) (reason string, severity state) {
	mode := info.Mode()
	if mode.IsDir() && mode&os.ModeSticky != 0 {
		return "", stateOK
	}
	switch {
	case mode.Perm()&0o002 != 0:
		return "is writable by every user", stateFix
	case strict && mode.Perm()&0o020 != 0:
		return "is writable by its group", stateFix
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return fmt.Sprintf("belongs to user %d", owner.Uid), stateWarning
	}
	return "", stateOK
}

// parentFolder is a folder above a file.
type parentFolder struct {
	path   string
	direct bool // it contains the file itself
	info   os.FileInfo
}

// parentFolders returns the folders above a file, and above the target if the file is a link.
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
