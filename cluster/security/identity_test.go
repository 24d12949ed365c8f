package security_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"troupe/cluster/security"
)

// authority creates a CA in a new folder, and certificates for localhost.
func authority(t *testing.T, names ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	ca, _, err := security.OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := ca.Issue(name, []string{name, "localhost", "127.0.0.1"}); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func files(dir, name string) security.Files {
	return security.Files{
		Cert: filepath.Join(dir, name+".crt"),
		Key:  filepath.Join(dir, name+".key"),
		CA:   filepath.Join(dir, "ca.crt"),
	}
}

func load(t *testing.T, dir, name string) *security.Identity {
	t.Helper()
	i, err := security.Load(files(dir, name), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// client issues a client certificate, which a node cannot use.
func client(t *testing.T, dir string) *security.Identity {
	t.Helper()
	ca, _, err := security.OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ca.IssueClient("guest"); err != nil {
		t.Fatal(err)
	}
	if _, err := security.Load(files(dir, "guest"), zerolog.Nop()); err == nil ||
		!strings.Contains(err.Error(), "without --client") {
		t.Errorf("as a node: %v", err)
	}
	guest, err := security.LoadClient(files(dir, "guest"), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return guest
}

// meet connects two configurations. It returns the server's certificate as seen by the client, and
// the error of each side.
func meet(
	t *testing.T,
	server, client *tls.Config,
	host string,
) (seen *x509.Certificate, clientErr, serverErr error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			done <- err
			return
		}
		defer conn.Close()
		with := tls.Server(conn, server)
		if err = with.Handshake(); err == nil {
			_, err = with.Write([]byte("hello"))
		}
		done <- err
	}()
	raw, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	client = client.Clone()
	client.ServerName = host
	conn := tls.Client(raw, client)
	// with TLS 1.3, the first read tells a client that it was rejected
	if _, clientErr = conn.Read(make([]byte, 5)); clientErr == nil {
		seen = conn.ConnectionState().PeerCertificates[0]
	}
	return seen, clientErr, <-done
}

// TestMutual: two nodes of one CA connect. A peer is rejected if it has no certificate, or one from
// another CA or for another host.
func TestMutual(t *testing.T) {
	dir, elsewhere := authority(t, "a", "b"), authority(t, "b")
	a, b, other, guest := load(t, dir, "a"), load(t, dir, "b"), load(t, elsewhere, "b"), client(t, dir)
	for name, tc := range map[string]struct {
		server, client *tls.Config
		host           string
		client_, serv  string // parts of the error texts; empty means no error
	}{
		"one CA":         {a.Server(), b.ClientOf(nil), "localhost", "", ""},
		"by address":     {a.Server(), b.ClientOf(nil), "127.0.0.1", "", ""},
		"one for both":   {a.Peer(), b.Peer(), "a", "", ""},
		"node to node":   {a.Node(), b.ClientOf(nil), "localhost", "", ""},
		"client to NATS": {a.Server(), guest.ClientOf(nil), "localhost", "", ""},
		"client to node": {
			a.Node(), guest.ClientOf(nil), "localhost", "bad certificate",
			"the certificate of guest is a client certificate",
		},
		"client to a route": {
			a.Peer(), guest.ClientOf(nil), "localhost", "bad certificate",
			"the certificate of guest is a client certificate",
		},
		"another host": {
			a.Server(), b.ClientOf(nil), "b", "certificate is valid for a, localhost, not b", "bad certificate",
		},
		"no certificate": {
			a.Server(), &tls.Config{RootCAs: b.ClientOf(nil).RootCAs}, "a", "certificate required",
			"didn't provide a certificate",
		},
		"client of elsewhere": {
			a.Server(),
			&tls.Config{
				RootCAs:              b.ClientOf(nil).RootCAs,
				GetClientCertificate: other.ClientOf(nil).GetClientCertificate,
			}, "a",
			"tls: ", "unknown authority",
		},
		"server of elsewhere": {other.Server(), b.ClientOf(nil), "b", "unknown authority", "bad certificate"},
		"TLS 1.2": {
			a.Server(), &tls.Config{MaxVersion: tls.VersionTLS12, RootCAs: b.ClientOf(nil).RootCAs}, "a",
			"protocol version", "unsupported versions",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, client, server := meet(t, tc.server, tc.client, tc.host)
			for side, pair := range map[string]struct {
				err  error
				want string
			}{"client": {client, tc.client_}, "server": {server, tc.serv}} {
				if pair.want == "" && pair.err != nil ||
					pair.want != "" && (pair.err == nil || !strings.Contains(pair.err.Error(), pair.want)) {
					t.Errorf("%s: %v, want %q", side, pair.err, pair.want)
				}
			}
		})
	}
}

// TestRotation: configurations in use adopt new files on both sides, but not before certificate and
// key match.
func TestRotation(t *testing.T) {
	dir := authority(t, "a", "b")
	log := &bytes.Buffer{}
	a, err := security.Load(files(dir, "a"), zerolog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	server, client := a.Server(), load(t, dir, "b").ClientOf(nil)
	serial := func() string {
		t.Helper()
		seen, clientErr, serverErr := meet(t, server, client, "a")
		if clientErr != nil || serverErr != nil {
			t.Fatalf("%v, %v", clientErr, serverErr)
		}
		return seen.SerialNumber.String()
	}
	first := serial()
	next := authority(t) // in another folder: its key is copied first and does not match yet
	if err := os.Rename(filepath.Join(dir, "a.key"), filepath.Join(next, "a.key")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "b.key"), filepath.Join(dir, "a.key")); err != nil {
		t.Fatal(err)
	}
	if serial() != first {
		t.Error("a key that does not match is used")
	}
	if !strings.Contains(log.String(), "changed certificate rejected") ||
		!strings.Contains(log.String(), "a.crt with key") {
		t.Errorf("the mismatch is not logged:\n%s", log)
	}
	ca, made, err := security.OpenAuthority(dir)
	if err != nil || made {
		t.Fatal(made, err)
	}
	if _, err := ca.Issue("a", nil); err != nil {
		t.Fatal(err)
	}
	if serial() == first {
		t.Error("the new certificate is not used")
	}
}

// TestLoadErrors: errors of Load name the file and its fault.
func TestLoadErrors(t *testing.T) {
	dir, elsewhere := authority(t, "a", "b"), authority(t, "a")
	ca, _, err := security.OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ca.Issue("hostless", nil); err != nil {
		t.Fatal(err)
	}
	a := files(dir, "a")
	for name, tc := range map[string]struct {
		f    security.Files
		want []string
	}{
		"no file": {
			security.Files{Cert: "nowhere.crt", Key: a.Key, CA: a.CA}, []string{"nowhere.crt: no such file"},
		},
		"no CA file": {
			security.Files{Cert: a.Cert, Key: a.Key, CA: "nowhere"}, []string{"CA: open nowhere: no such file"},
		},
		"another key": {security.Files{Cert: a.Cert, Key: files(dir, "b").Key, CA: a.CA},
			[]string{"a.crt with key ", "b.key", "private key does not match"}},
		"another CA": {
			security.Files{Cert: a.Cert, Key: a.Key, CA: files(elsewhere, "a").CA},
			[]string{a.Cert, "not by the CA in " + elsewhere},
		},
		"not a CA": {security.Files{Cert: a.Cert, Key: a.Key, CA: a.Cert}, []string{"is not a CA certificate"}},
		"key for CA": {
			security.Files{Cert: a.Cert, Key: a.Key, CA: a.Key},
			[]string{`CA ` + a.Key, `"PRIVATE KEY" is not a certificate`},
		},
		"no hosts": {files(dir, "hostless"), []string{"hostless.crt", "names no host"}},
		"CA as a node": {
			security.Files{Cert: a.CA, Key: filepath.Join(dir, "ca.key"), CA: a.CA},
			[]string{"ca.crt", "names no host"},
		},
	} {
		_, err := security.Load(tc.f, zerolog.Nop())
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	if err := load(t, dir, "a").CheckHost("n7"); err == nil ||
		!strings.Contains(err.Error(), "is not valid for host n7 (valid for a, localhost, 127.0.0.1)") {
		t.Errorf("%v", err)
	}
	if err := load(t, dir, "a").CheckHost("127.0.0.1"); err != nil {
		t.Error(err)
	}
}

// TestExpiry: a certificate is logged as a warning before it expires, and rejected after it expires
// or before it is valid.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := authority(t, "a")
		for _, tc := range []struct {
			wait       time.Duration
			level, err string
		}{
			{0, `"level":"info"`, ""},
			{355 * 24 * time.Hour, `"level":"warn"`, ""},
			{11 * 24 * time.Hour, "", "a.crt: expired on "},
		} {
			time.Sleep(tc.wait)
			log := &bytes.Buffer{}
			_, err := security.Load(files(dir, "a"), zerolog.New(log))
			if !strings.Contains(log.String(), tc.level) || (err == nil) != (tc.err == "") ||
				err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("after %v: %v\n%s", tc.wait, err, log)
			}
		}
	})
}

// TestHTTPS: a client without a certificate is served, also over HTTP/2.
func TestHTTPS(t *testing.T) {
	dir := authority(t, "a")
	f := files(dir, "a")
	server, err := security.HTTPS(f.Cert, f.Key, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	client := &tls.Config{RootCAs: load(t, dir, "a").ClientOf(nil).RootCAs, NextProtos: []string{"h2"}}
	if seen, c, s := meet(t, server, client, "localhost"); c != nil || s != nil || seen.Subject.CommonName != "a" {
		t.Errorf("%v, %v", c, s)
	}
}
