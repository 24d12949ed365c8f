package bus_test

import (
	"context"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/node/bus"
)

type noAudit struct{}

func (noAudit) Reloaded(string) func(error) { return func(error) {} }
func (noAudit) NATSRefused(string, string)  {}

func config(t *testing.T) bus.Config {
	return bus.Config{
		Node: "a", DataDir: t.TempDir(), Listen: "127.0.0.1:0", InboxPrefixes: []string{"_INBOX_a"},
		Audit: noAudit{}, Registry: prometheus.NewRegistry(), Log: zerolog.Nop(), Runtime: supervise.System,
	}
}

// TestBus checks an embedded server and a client of that server.
func TestBus(t *testing.T) {
	own, err := bus.Open(t.Context(), config(t))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	cfg := config(t)
	cfg.Listen, cfg.Join = "", []string{own.ServerURL()}
	guest, err := bus.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	if !own.Conn().IsConnected() || !guest.Conn().IsConnected() || guest.ServerURL() != "" {
		t.Errorf("not connected: %s, %s", own.URL(), guest.URL())
	}
	if _, ok := own.Disk(); !ok {
		t.Error("the server has no disk")
	}
	if _, ok := guest.Disk(); ok {
		t.Error("a client of another server has a disk")
	}
	guest.SetMembers([]*messages.Member{{InboxPrefixes: []string{"_INBOX_b", "not > valid"}}})
	if p := guest.InboxPrefixes(); !slices.Equal(p, []string{"_INBOX_a"}) {
		t.Error(p)
	}
}

// TestJoinEnds checks that the wait for a server ends when the start is cancelled.
func TestJoinEnds(t *testing.T) {
	cfg := config(t)
	cfg.Join = []string{"nats://127.0.0.1:1"}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if b, err := bus.Open(ctx, cfg); err == nil {
		b.Close()
		t.Error("connected to nothing")
	}
}
