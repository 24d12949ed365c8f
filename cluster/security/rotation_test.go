package security_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"troupe/cluster/security"
	"troupe/testkit"
)

// cat concatenates files into one, as an operator would.
func cat(t *testing.T, to string, from ...string) {
	t.Helper()
	var all []byte
	for _, f := range from {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	if err := os.WriteFile(to+".new", all, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(to+".new", to); err != nil {
		t.Fatal(err)
	}
}

// watched loads an identity with its own files and follows their changes.
func watched(t *testing.T, f security.Files, log zerolog.Logger) *security.Identity {
	t.Helper()
	i, err := security.Load(f, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { i.Watch(ctx, nil) })
	t.Cleanup(func() { end(); watching.Wait() })
	return i
}

// held are the two ends of an open connection.
type held struct{ client, server net.Conn }

// hold connects two identities and returns both ends, or the error. Sockets and files are real, since
// TLS and what the system reports about changed files are what is tested.
func hold(t *testing.T, server, client *security.Identity) (held, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	type accepted struct {
		conn *tls.Conn
		err  error
	}
	done := make(chan accepted, 1)
	go func() {
		raw, err := listener.Accept()
		if err != nil {
			done <- accepted{nil, err}
			return
		}
		conn := tls.Server(raw, server.Node())
		if err = conn.Handshake(); err != nil {
			raw.Close()
		} else {
			_, err = conn.Write([]byte("x"))
		}
		done <- accepted{conn, err}
	}()
	raw, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cfg := client.ClientOf(raw)
	cfg.ServerName = "localhost"
	conn := tls.Client(raw, cfg)
	_, err = conn.Read(make([]byte, 1))
	if err != nil {
		raw.Close()
	}
	at := <-done
	if err == nil {
		err = at.err
	}
	if err != nil {
		return held{}, err
	}
	t.Cleanup(func() { conn.Close(); at.conn.Close() })
	return held{conn, at.conn}, nil
}

// passes reports whether a byte still passes from one end to the other.
func (h held) passes(t *testing.T) bool {
	t.Helper()
	if _, err := h.client.Write([]byte("x")); err != nil {
		return false
	}
	_ = h.server.SetReadDeadline(time.Now().Add(30 * time.Second))
	_, err := h.server.Read(make([]byte, 1))
	return err == nil
}

// node returns the files of one node, with its own copies of the CA and the revoked certificates.
func node(t *testing.T, dir, name string) security.Files {
	t.Helper()
	f := files(dir, name)
	own := t.TempDir()
	f.CA, f.Revoked = filepath.Join(own, "ca.crt"), filepath.Join(own, "revoked")
	cat(t, f.CA, filepath.Join(dir, "ca.crt"))
	cat(t, f.Revoked)
	return f
}

// TestCAChange changes the CA without a restart. Nodes of the old CA and the new one work side by
// side. Once the old CA is removed, both sides reject its certificates and close their connections.
func TestCAChange(t *testing.T) {
	was, will := authority(t, "a", "b"), authority(t, "a", "b")
	oldCA, newCA := filepath.Join(was, "ca.crt"), filepath.Join(will, "ca.crt")
	af, bf := node(t, was, "a"), node(t, was, "b")
	own := t.TempDir() // a's certificate is replaced in place
	af.Cert, af.Key = filepath.Join(own, "a.crt"), filepath.Join(own, "a.key")
	cat(t, af.Key, filepath.Join(was, "a.key"))
	cat(t, af.Cert, filepath.Join(was, "a.crt"))
	a, b := watched(t, af, zerolog.Nop()), watched(t, bf, zerolog.Nop())
	nf := node(t, will, "b")
	next := watched(t, nf, zerolog.Nop())
	before, err := hold(t, a, b)
	if err != nil {
		t.Fatal(err)
	}
	towards, err := hold(t, b, a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hold(t, a, next); err == nil {
		t.Fatal("a node of a CA that was not added yet is accepted")
	}

	cat(t, af.CA, oldCA, newCA)
	cat(t, bf.CA, oldCA, newCA)
	cat(t, nf.CA, oldCA, newCA)
	if _, err := hold(t, a, next); err != nil {
		t.Errorf("the new CA's node to the old one's: %v", err)
	}
	if _, err := hold(t, next, a); err != nil {
		t.Errorf("the old CA's node to the new one's: %v", err)
	}
	if _, err := hold(t, a, b); err != nil {
		t.Errorf("two nodes of the old CA: %v", err)
	}
	cat(t, af.Key, filepath.Join(will, "a.key"))
	cat(t, af.Cert, filepath.Join(will, "a.crt"))
	if _, err := hold(t, b, a); err != nil {
		t.Errorf("a, with a certificate of the new CA, to b: %v", err)
	}
	if !before.passes(t) || !towards.passes(t) {
		t.Error("earlier connections are closed while both CAs are trusted")
	}
	kept, err := hold(t, a, next)
	if err != nil {
		t.Fatal(err)
	}

	cat(t, af.CA, newCA)
	testkit.Until(t, "the connection from b to be closed", func() bool { return !before.passes(t) })
	testkit.Until(t, "the connection to b to be closed", func() bool { return !towards.passes(t) })
	if !kept.passes(t) {
		t.Error("a connection of the new CA is closed")
	}
	if _, err := hold(t, a, b); err == nil {
		t.Error("a node of the old CA is accepted")
	}
	if _, err := hold(t, b, a); err == nil {
		t.Error("a node of the old CA is dialled")
	}
}

// TestRevoked: both sides reject a listed certificate and close its connections, and keep the
// others. A malformed list has no effect and is logged.
func TestRevoked(t *testing.T) {
	dir := authority(t, "a", "b", "c")
	af := node(t, dir, "a")
	log := &buffer{}
	a, b, c := watched(
		t,
		af,
		zerolog.New(log),
	), watched(
		t,
		node(t, dir, "b"),
		zerolog.Nop(),
	), watched(
		t,
		node(t, dir, "c"),
		zerolog.Nop(),
	)
	var changes sync.Map
	a.OnChange(func(err error) { changes.Store(err == nil, true) })
	must := func(server, client *security.Identity) held {
		t.Helper()
		h, err := hold(t, server, client)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	fromB, toB, fromC := must(a, b), must(b, a), must(a, c)
	file, known, err := security.Revoke(dir, "b")
	if err != nil || known {
		t.Fatal(known, err)
	}
	if _, known, err := security.Revoke(dir, "b"); err != nil || !known {
		t.Errorf("again: %t, %v", known, err)
	}
	cat(t, af.Revoked, file)
	if _, err := hold(t, a, b); err == nil {
		t.Error("a revoked certificate is accepted")
	}
	if _, err := hold(t, b, a); err == nil {
		t.Error("a revoked certificate is dialled")
	}
	testkit.Until(t, "the connection from b to be closed", func() bool { return !fromB.passes(t) })
	testkit.Until(t, "the connection to b to be closed", func() bool { return !toB.passes(t) })
	if !fromC.passes(t) {
		t.Error("another's connection is closed")
	}
	if err := os.WriteFile(af.Revoked, []byte("b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Until(
		t,
		"the malformed list to be logged",
		func() bool { return strings.Contains(log.String(), "line 1: not a SHA-256 fingerprint") },
	)
	if _, err := hold(t, a, b); err == nil {
		t.Error("a malformed list admits a revoked certificate")
	}
	if _, err := hold(t, a, c); err != nil {
		t.Errorf("a malformed list rejects other certificates: %v", err)
	}
	for _, taken := range []bool{true, false} {
		if _, ok := changes.Load(taken); !ok {
			t.Errorf("OnChange was not called for an applied change: %t", taken)
		}
	}
}

// TestRevokedCA: revoking a CA revokes all certificates that it signed.
func TestRevokedCA(t *testing.T) {
	dir := authority(t, "a", "b")
	af := node(t, dir, "a")
	a, b := watched(t, af, zerolog.Nop()), watched(t, node(t, dir, "b"), zerolog.Nop())
	file, _, err := security.Revoke(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	cat(t, af.Revoked, file)
	if _, err := hold(t, a, b); err == nil {
		t.Error("a certificate of a revoked CA is accepted")
	}
}

// TestRevokedAtNATS: the server closes the connections of a revoked client only, and a client
// leaves a revoked server.
func TestRevokedAtNATS(t *testing.T) {
	dir := authority(t, "a", "b", "c")
	af := node(t, dir, "a")
	s := natsWith(t, watched(t, af, zerolog.Nop()))
	bf := node(t, dir, "b")
	connect := func(s *server.Server, f security.Files) *nats.Conn {
		t.Helper()
		opts, err := security.Login{TLS: watched(t, f, zerolog.Nop())}.Options()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := nats.Connect(
			s.ClientURL(),
			append(opts, nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	b, c := connect(s, bf), connect(s, node(t, dir, "c"))
	file, _, err := security.Revoke(dir, "b")
	if err != nil {
		t.Fatal(err)
	}
	cat(t, af.Revoked, file)
	testkit.Until(t, "the revoked client to be disconnected", func() bool {
		return s.NumClients() == 1 && !b.IsConnected()
	})
	if c.Flush() != nil || c.Reconnects != 0 {
		t.Error("another client was disconnected")
	}
	other := natsWith(t, watched(t, node(t, dir, "a"), zerolog.Nop()))
	d := connect(other, bf)
	file, _, err = security.Revoke(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	cat(t, bf.Revoked, file)
	testkit.Until(t, "the client to leave the revoked server", func() bool { return !d.IsConnected() })
}

// buffer is a log that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}
