package natsd_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"troupe/cluster/natsd"
	"troupe/cluster/security"
	"troupe/testkit"
)

// logBuffer collects log lines.
type logBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *logBuffer) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.Buffer.String(), text)
}

// TestUsersChange checks that a changed users file, with users or accounts, takes effect without a
// restart. Connections of removed users are closed, those of others stay open, and an invalid file
// changes nothing.
func TestUsersChange(t *testing.T) {
	for name, file := range map[string]func(node string, users ...string) string{
		"users": func(node string, users ...string) string {
			text := "authorization { users = [ {nkey: " + node + "}"
			for _, u := range users {
				text += `, {nkey: ` + u + `, permissions: {publish: ">", subscribe: "_INBOX.>"}}`
			}
			return text + "] }"
		},
		"accounts": func(node string, users ...string) string {
			text := "accounts { NODES: { jetstream: enabled, users: [ {nkey: " + node + "} ]," +
				" exports: [ {service: \"troupe.v1.>\"} ] }"
			for _, u := range users {
				text += fmt.Sprintf("\n G%s: { users: [ {nkey: %s} ], imports: [ "+
					"{service: {account: NODES, subject: \"troupe.v1.>\"}, share: true} ] }", u[:5], u)
			}
			return text + "}"
		},
	} {
		t.Run(name, func(t *testing.T) { changeUsers(t, file) })
	}
}

func changeUsers(t *testing.T, file func(node string, users ...string) string) {
	dir := t.TempDir()
	key := func(name string) (public, seed string) {
		t.Helper()
		seed = filepath.Join(dir, name)
		public, err := security.NewNkey(seed)
		if err != nil {
			t.Fatal(err)
		}
		return public, seed
	}
	node, nodeSeed := key("node")
	anna, annaSeed := key("anna")
	otto, ottoSeed := key("otto")
	users := filepath.Join(dir, "users.conf")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(users+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(users+".new", users); err != nil {
			t.Fatal(err)
		}
	}
	put(file(node, anna))
	logged := &logBuffer{}
	var loaded atomic.Int64
	s, err := natsd.Start(t.Context(), natsd.Config{
		Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Name: "one",
		UsersFile: users, NodeKey: node, Log: zerolog.New(logged),
		OnUsersReload: func(err error) {
			if err == nil {
				loaded.Add(1)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	login := func(seed string) []nats.Option {
		t.Helper()
		opts, err := security.Login{Nkey: seed}.Options()
		if err != nil {
			t.Fatal(err)
		}
		return append(opts, natsd.ClientOptions("test", zerolog.Nop())...)
	}
	self, err := s.Connect(login(nodeSeed)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(self.Close)
	js, err := jetstream.New(self)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if _, err := self.Subscribe("troupe.v1.>", func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil {
		t.Fatal(err)
	}
	if err := self.Flush(); err != nil {
		t.Fatal(err)
	}
	// Clients connect before or after a reload: nats-server has a data race between the two.
	enter := func(seed string) (*nats.Conn, error) {
		conn, err := nats.Connect(s.URL(),
			append(login(seed), nats.CustomInboxPrefix("_INBOX"), nats.NoReconnect())...)
		if err == nil {
			t.Cleanup(conn.Close)
		}
		return conn, err
	}
	was, err := enter(annaSeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := enter(ottoSeed); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("otto, who is not in the file yet: %v", err)
	}

	put(file(node, anna, otto))
	testkit.Until(t, "the users are loaded", func() bool { return loaded.Load() == 1 })
	will, err := enter(ottoSeed)
	if err != nil {
		t.Fatalf("otto, who is in the file now: %v", err)
	}
	testkit.Until(t, "otto gets replies", func() bool {
		_, err := will.Request("troupe.v1.x", nil, time.Second)
		return err == nil
	})
	if _, err := was.Request("troupe.v1.x", nil, 10*time.Second); err != nil || was.Reconnects != 0 {
		t.Errorf("anna, who is still in the file: %v, %d reconnects", err, was.Reconnects)
	}

	for wrong, want := range map[string]string{
		"authorization { users = [":    "NATS users",
		file(anna):                     "the nkey of this node, " + node + ", is not among them",
		file(node, anna) + "\nport: 1": "has port, which is not about users",
	} {
		put(wrong)
		testkit.Until(t, "a log line with "+want, func() bool { return logged.has(want) })
		if _, err := enter(ottoSeed); err != nil {
			t.Errorf("after an invalid file (%s) otto cannot connect: %v", want, err)
		}
	}

	put(file(node, otto))
	testkit.Until(t, "the users are loaded again", func() bool { return loaded.Load() == 2 })
	testkit.Until(t, "anna is disconnected", func() bool { return !was.IsConnected() })
	if _, err := enter(annaSeed); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("anna, who was removed: %v", err)
	}
	testkit.Until(t, "otto gets replies", func() bool {
		_, err := will.Request("troupe.v1.x", nil, time.Second)
		return err == nil
	})
	if self.Reconnects != 0 {
		t.Errorf("the node's own connection was lost %d times", self.Reconnects)
	}
	put(file(node, anna, otto))
	testkit.Until(t, "the users are loaded a third time", func() bool { return loaded.Load() == 3 })
	if _, err := enter(annaSeed); err != nil {
		t.Errorf("anna, who is back: %v", err)
	}
	// Get would race: nats-server answers it by reading options without the lock that a reload takes.
	testkit.Until(t, "the store has the value stored before", func() bool { // its API is down briefly during a reload
		stored, err := kv.Status(t.Context())
		return err == nil && stored.Values() == 1
	})
}

// TestRevokedRoute checks that the servers of a cluster disconnect one whose certificate is
// revoked, whichever of them dialed, and continue together.
func TestRevokedRoute(t *testing.T) {
	dir := t.TempDir()
	ca, _, err := security.OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	revoked := filepath.Join(t.TempDir(), "revoked")
	if err := os.WriteFile(revoked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	at := make([]string, 3)
	for i := range at {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		at[i] = l.Addr().String()
		l.Close()
	}
	servers, errs := make([]*natsd.Server, 3), make([]error, 3)
	var starting sync.WaitGroup
	for i := range servers {
		name := fmt.Sprint("n", i)
		if _, err := ca.Issue(name, []string{"127.0.0.1"}); err != nil {
			t.Fatal(err)
		}
		id, err := security.Load(security.Files{
			Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key"),
			CA: filepath.Join(dir, "ca.crt"), Revoked: revoked,
		}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		cfg := natsd.Config{
			Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Name: name, Log: zerolog.Nop(),
			ClusterListen: at[i], SharedProcess: true,
			TLS: id.Server(), ClusterTLS: id.Peer, TrustedKeys: id.TrustedKeys,
		}
		for _, a := range at {
			cfg.Routes = append(cfg.Routes, "nats://"+a)
		}
		starting.Go(func() {
			servers[i], errs[i] = natsd.Start(t.Context(), cfg)
			if errs[i] == nil && i < 2 { // the third server does not watch the revocations
				go id.Watch(t.Context(), servers[i].ReloadTLS)
			}
		})
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		t.Cleanup(s.Stop)
	}
	testkit.Until(t, "all are connected", func() bool {
		return servers[0].Peers() == 2 && servers[1].Peers() == 2 && servers[2].Peers() == 2
	})
	file, _, err := security.Revoke(dir, "n2")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(revoked, list, 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the revoked server is disconnected", func() bool { return servers[2].Peers() == 0 })
	testkit.Until(t, "the others are connected", func() bool {
		return servers[0].Peers() == 1 && servers[1].Peers() == 1
	})
}
