package bulk_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"troupe/cluster/bulk"
	"troupe/cluster/security"
	"troupe/testkit"
)

// TestRevokedNodeIsDisconnected: the open connection of a node whose certificate is revoked is
// closed, and the node cannot open another.
func TestRevokedNodeIsDisconnected(t *testing.T) {
	dir, revoked := t.TempDir(), filepath.Join(t.TempDir(), "revoked")
	if err := os.WriteFile(revoked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ca, _, err := security.OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	node := func(name, revoked string) bulk.Config {
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
		return bulk.Config{ServerTLS: id.Node(), ClientTLS: id.ClientOf}
	}
	b, bad := listen(t, node("b", revoked)), listen(t, node("bad", ""))
	send := func(ctx context.Context) error {
		got := newSink()
		ticket := expect(t, b, 100_000, 5, got.put)
		defer b.Drop(ticket)
		return bad.Send(ctx, ticket, all(5), from(content(1, 5, 100_000)))
	}
	if err := send(t.Context()); err != nil {
		t.Fatal(err)
	}
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
	testkit.Until(t, "the connection to be closed", func() bool { return b.Stats().Inbound == 0 })
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan error)
	go func() { sent <- send(ctx) }()
	testkit.Until(t, "another try", func() bool { return bad.Stats().Sent[b.Address()].Reconnects > 1 })
	cancel()
	if err := <-sent; err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a revoked node's transfer: %v", err)
	}
}
