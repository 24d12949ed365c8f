package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFilePermissions checks that key files that other users can write or replace are refused with
// a remedy, and that readable secrets are a warning. With --insecure all are warnings.
func TestFilePermissions(t *testing.T) {
	for _, option := range []string{
		"nats-nkey", "nats-creds", "nats-users", "api-keys", "tls-key", "http-tls-key",
		"tls-cert", "tls-ca", "tls-revoked", "http-tls-cert",
	} {
		readable := stateOK
		if !strings.HasSuffix(option, "cert") && option != "tls-ca" && option != "tls-revoked" {
			readable = stateWarning // secret
		}
		for name, tc := range map[string]struct {
			file, folder os.FileMode
			want         state
			text         string
		}{
			"own":               {0o600, 0o700, stateOK, ""},
			"readable":          {0o644, 0o755, readable, "can be read by others"},
			"group writes":      {0o660, 0o700, stateFix, "can be changed by others: it is writable by its group"},
			"all write":         {0o606, 0o700, stateFix, "can be changed by others: it is writable by every user"},
			"all write folder":  {0o600, 0o707, stateFix, "can be replaced by others"},
			"group's folder":    {0o600, 0o770, stateFix, "can be replaced by others"},
			"sticky folder":     {0o600, 0o777 | os.ModeSticky, stateOK, ""},
			"sticky, all write": {0o602, 0o777 | os.ModeSticky, stateFix, "can be changed by others"},
		} {
			t.Run(option+", "+name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "keys")
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				file := writeFile(t, dir, "file", "")
				for path, mode := range map[string]os.FileMode{file: tc.file, dir: tc.folder} {
					if err := os.Chmod(path, mode); err != nil {
						t.Fatal(err)
					}
				}
				checkPermissions(t, option, file, tc.want, tc.text)
				link := filepath.Join(t.TempDir(), "link")
				if err := os.Symlink(file, link); err != nil {
					t.Fatal(err)
				}
				checkPermissions(t, option, link, tc.want, tc.text)
			})
		}
	}
}

func checkPermissions(t *testing.T, option, file string, want state, text string) {
	t.Helper()
	var s settings
	for flag, field := range map[string]*string{
		"nats-nkey": &s.NATSNkey, "nats-creds": &s.NATSCreds, "nats-users": &s.NATSUsers, "api-keys": &s.APIKeys,
		"tls-key": &s.TLSKey, "http-tls-key": &s.HTTPTLSKey, "tls-cert": &s.TLSCert, "tls-ca": &s.TLSCA,
		"tls-revoked": &s.TLSRevoked, "http-tls-cert": &s.HTTPTLSCert,
	} {
		if flag == option {
			*field = file
		}
	}
	s.HTTP = defaultHTTP
	got, found := stateOK, ""
	for _, f := range s.securityFindings() {
		if f.Check == "files" {
			got, found = f.State, f.Text
			if !strings.HasPrefix(f.Text, "--"+option+" "+file) || !strings.Contains(f.Remedy, "chmod") {
				t.Errorf("%+v", f)
			}
		}
	}
	if got != want || want != stateOK && !strings.Contains(found, text) {
		t.Errorf("%s %q, want %s %q", got, found, want, text)
	}
	err := s.checkSecurity()
	if (err != nil) != (want == stateFix) {
		t.Errorf("checkSecurity: %v", err)
	}
	insecure := true
	s.Insecure = &insecure
	if err := s.checkSecurity(); err != nil {
		t.Errorf("with --insecure: %v", err)
	}
}

// TestConfigPermissions checks that a configuration file may be writable by its group, but not by
// every user.
func TestConfigPermissions(t *testing.T) {
	dir := t.TempDir()
	file := writeFile(t, dir, "node.yaml", "log_level: warn\n")
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o644: false, 0o664: false, 0o646: true} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		_, err := parseArgs(t, resolve, "--config", file)
		if (err != nil) != refused {
			t.Errorf("%o: %v", mode, err)
		}
	}
}
