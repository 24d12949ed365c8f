package link_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/cluster/link"
	"troupe/cluster/security"
	"troupe/testkit"
)

// TestRevokedNodeIsDisconnected: nodes lose the link to one whose certificate is revoked, in both
// directions, and keep the links among themselves. The revoked node itself ignores the revocation.
func TestRevokedNodeIsDisconnected(t *testing.T) {
	dir, revoked := t.TempDir(), filepath.Join(t.TempDir(), "revoked")
	if err := os.WriteFile(revoked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ca, _, err := security.OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	node := func(name, revoked string) func(*link.Config) {
		t.Helper()
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
		go id.Watch(t.Context(), nil)
		return func(c *link.Config) { c.ServerTLS, c.ClientTLS = id.Node(), id.ClientOf }
	}
	a, b, bad := start(t, node("a", revoked)), start(t, node("b", revoked)), start(t, node("bad", ""))
	join(a, b, bad)
	_, atA := a.echo(t)
	_, atB := b.echo(t)
	_, atBad := bad.echo(t)
	a.waitReachable(t, atB)
	a.waitReachable(t, atBad)
	bad.waitReachable(t, atA)
	file, _, err := security.Revoke(dir, "bad")
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
	testkit.Until(t, "the link from the revoked node to break", func() bool {
		return unreachable(bad.ask(atA, "to a"))
	})
	testkit.Until(
		t,
		"the link to the revoked node to break",
		func() bool { return unreachable(a.ask(atBad, "to the revoked one")) },
	)
	a.waitReachable(t, atB)
	b.waitReachable(t, atA)
}

func unreachable(f actor.Future) bool {
	_, err := f.Result()
	return errors.Is(err, actor.ErrDeadLetter)
}
