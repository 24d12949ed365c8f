package bulk_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"

	"troupe/cluster/bulk"
	"troupe/cluster/bulk/bulkbench"
	"troupe/testkit"
)

// TestTLS sends between nodes with certificates. A node without one is rejected, and so is plain
// TCP.
func TestTLS(t *testing.T) {
	server, client, err := bulkbench.MutualTLS()
	if err != nil {
		t.Fatal(err)
	}
	b := listen(t, bulk.Config{ServerTLS: server})
	nameless := client.Clone()
	nameless.Certificates = nil
	for name, c := range map[string]struct {
		client *tls.Config
		fails  string
	}{
		"known":          {client, ""},
		"no certificate": {nameless, "certificate"},
		"unknown server": {&tls.Config{Certificates: client.Certificates}, "certificate"},
		"plain TCP":      {nil, "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			a := listen(t, bulk.Config{})
			if c.client != nil {
				a = listen(t, bulk.Config{ClientTLS: func(net.Conn) *tls.Config { return c.client }})
			}
			want, got := content(1, 50, 100_000), newSink()
			ticket := expect(t, b, 100_000, 50, got.put)
			defer b.Drop(ticket)
			ctx := t.Context()
			if c.fails != "" {
				ctx, cancel := context.WithCancel(ctx)
				sent := make(chan error)
				go func() { sent <- a.Send(ctx, ticket, all(50), from(want)) }()
				testkit.Until(t, "another try", func() bool { return a.Stats().Sent[b.Address()].Reconnects > 1 })
				cancel()
				err := <-sent
				if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), c.fails) || len(got.got) != 0 {
					t.Errorf("%v, %d chunks", err, len(got.got))
				}
				return
			}
			if err := a.Send(ctx, ticket, all(50), from(want)); err != nil {
				t.Fatal(err)
			}
			b.Drop(ticket)
			if err := got.compare(want); err != nil {
				t.Error(err)
			}
		})
	}
}
