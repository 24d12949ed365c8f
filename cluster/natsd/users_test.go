package natsd_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"troupe/cluster/natsd"
	"troupe/cluster/security"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUsers checks that exactly the users in the file can connect, and that their permissions
// apply.
func TestUsers(t *testing.T) {
	dir := t.TempDir()
	seed := func(name string) (public, file string) {
		t.Helper()
		file = filepath.Join(dir, name)
		public, err := security.NewNkey(file)
		if err != nil {
			t.Fatal(err)
		}
		return public, file
	}
	node, nodeSeed := seed("node")
	guest, guestSeed := seed("guest")
	_, strangerSeed := seed("stranger")
	opts, err := natsd.LoadUsers(write(t, dir, "users.conf", `
GUEST = {publish: "troupe.v1.infer.kjv", subscribe: "_INBOX.>"}
authorization {
  users = [
    {nkey: `+node+`}
    {nkey: `+guest+`, permissions: $GUEST}
  ]
}`))
	if err != nil {
		t.Fatal(err)
	}
	opts.Host, opts.Port, opts.NoSigs = "127.0.0.1", server.RANDOM_PORT, true
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("not ready")
	}
	connect := func(seed string) (*nats.Conn, error) {
		login, err := security.Login{Nkey: seed}.Options()
		if err != nil {
			t.Fatal(err)
		}
		return nats.Connect(s.ClientURL(), login...)
	}
	if _, err := nats.Connect(s.ClientURL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without a key: %v", err)
	}
	if _, err := connect(strangerSeed); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("unknown key: %v", err)
	}
	serves, err := connect(nodeSeed)
	if err != nil {
		t.Fatal(err)
	}
	defer serves.Close()
	if _, err := serves.Subscribe("troupe.v1.>", func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		t.Fatal(err)
	}
	if err := serves.Flush(); err != nil {
		t.Fatal(err)
	}
	asks, err := connect(guestSeed)
	if err != nil {
		t.Fatal(err)
	}
	defer asks.Close()
	if _, err := asks.Request("troupe.v1.infer.kjv", nil, 10*time.Second); err != nil {
		t.Errorf("allowed request: %v", err)
	}
	if err := errors.Join(asks.Publish("troupe.v1.models.delete", nil), asks.Flush()); err != nil {
		t.Fatal(err)
	}
	if err := asks.LastError(); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("forbidden request: %v", err)
	}
}

func TestInvalidUsersFile(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"":                         "has none, so every client could connect",
		"authorization {}":         "has none",
		"port: 4222":               "has port, which is not about users; it can have only authorization, accounts",
		"authorization {users = [": "NATS users: ",
		"authorization {users = [{nkey: UNONSENSE}]}": "Not a valid public nkey",
	} {
		if _, err := natsd.LoadUsers(write(t, dir, "users.conf", text)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if opts, err := natsd.LoadUsers(""); err != nil || opts == nil {
		t.Errorf("no file: %v", err)
	}
}

// TestUsersErrorsHaveNoSecrets checks that an error about a users file quotes no password, token or
// seed.
func TestUsersErrorsHaveNoSecrets(t *testing.T) {
	const secret, seed = "hunter2-SECRET", "SUAFHBBPQMXXOS4LJEAKEVSNK5ADCVPHV5BJG4TDJCRMEIMSPTU5AZHBLQ"
	for _, text := range []string{
		`authorization { password: {` + secret + `: 1} }`,
		`authorization { user: a, password: "` + secret + `", users: [ {user: b, password: ` + secret + `} ] }`,
		`authorization { token: "` + secret + `", user: x }`,
		`authorization { users: [ {user: a, password: ` + secret + ` ` + secret + `} ] }`,
		`authorization { users: [ {user: a, password: ` + secret + ` ]`,
		`authorization { users: [ {nkey: ` + seed + `} ] }`,
		`authorization { users: [ ` + seed + ` ] }`,
		`authorization { users: [ {user: a, password: "` + secret + `", ` +
			`permissions: {publish: {password: ` + secret + `}}} ] }`,
		`authorization { users: {user: a, password: ` + secret + `} }`,
		`accounts { A: { users: [ {user: a, password: ` + secret + `}, {user: a, password: ` + secret + `} ], ` +
			`exports: [ {password: ` + secret + `} ] } }`,
	} {
		_, err := natsd.LoadUsers(write(t, t.TempDir(), "users.conf", text))
		if err == nil {
			t.Errorf("accepted: %s", text)
		} else if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), seed) {
			t.Errorf("%s\n%v", text, err)
		}
	}
}
