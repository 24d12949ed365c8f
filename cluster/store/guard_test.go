package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"troupe/cluster/bucket"
	"troupe/cluster/natsd"
	"troupe/messages"
	"troupe/testkit"
)

// TestErrorsCarryReasons checks that an error tells whether nothing was changed or a change may
// have been made.
func TestErrorsCarryReasons(t *testing.T) {
	const none = messages.Reason_REASON_UNSPECIFIED
	const noQuorum, unknown = messages.Reason_REASON_NO_QUORUM, messages.Reason_REASON_OUTCOME_UNKNOWN
	for err, want := range map[error]struct{ read, write messages.Reason }{
		context.DeadlineExceeded:              {noQuorum, unknown},
		context.Canceled:                      {none, unknown},
		nats.ErrTimeout:                       {noQuorum, unknown},
		nats.ErrConnectionClosed:              {noQuorum, unknown},
		jetstream.ErrNoStreamResponse:         {noQuorum, noQuorum},
		nats.ErrNoResponders:                  {noQuorum, noQuorum},
		jetstream.ErrKeyNotFound:              {none, none},
		jetstream.ErrKeyExists:                {none, none},
		&jetstream.APIError{ErrorCode: 10071}: {none, none},
	} {
		wrapped := fmt.Errorf("a key: %w", err)
		for what, got := range map[string]error{"read": readError("k", wrapped), "write": writeError("k", wrapped)} {
			want := map[string]messages.Reason{"read": want.read, "write": want.write}[what]
			var refused interface{ GetReason() messages.Reason }
			if errors.As(got, &refused) != (want != none) || want != none && refused.GetReason() != want {
				t.Errorf("%s: %v: %v, want %v", what, err, got, want)
			}
			if !errors.Is(got, err) {
				t.Errorf("%s: %v does not wrap %v", what, got, err)
			}
		}
	}
	if readError("k", nil) != nil || writeError("k", nil) != nil {
		t.Error("nil became an error")
	}
}

// TestPrecheckBlocksReadsAndWrites checks that no key is read or written while the precheck fails.
func TestPrecheckBlocksReadsAndWrites(t *testing.T) {
	s, _ := open(t)
	ctx := t.Context()
	spec := &messages.DeploymentSpec{Name: "kjv", Replicas: new(uint32(1))}
	revision, err := s.Put(ctx, spec, 0)
	if err != nil {
		t.Fatal(err)
	}
	problem := errors.New("no majority")
	s.SetPrecheck(func() error { return problem })
	a := &messages.AdapterSpec{Model: "kjv", Name: "a"}
	for what, act := range map[string]func() error{
		"put":             func() error { _, err := s.Put(ctx, spec, 0); return err },
		"update":          func() error { _, err := s.Put(ctx, spec, revision); return err },
		"get":             func() error { _, _, err := s.Get(ctx, "kjv"); return err },
		"delete":          func() error { return s.Delete(ctx, "kjv", false) },
		"delete and drop": func() error { return s.Delete(ctx, "kjv", true) },
		"new adapter":     func() error { _, err := s.PutAdapter(ctx, a, 0); return err },
		"adapter":         func() error { _, err := s.PutAdapter(ctx, a, 7); return err },
		"delete adapter":  func() error { return s.DeleteAdapter(ctx, "kjv", "a", 7) },
		"node":            func() error { return s.PutNode(ctx, &messages.NodeSpec{Name: "n"}) },
		"pin":             func() error { return s.PutPin(ctx, &messages.PinnedPrefix{Name: "p"}) },
		"delete pin":      func() error { return s.DeletePin(ctx, "p") },
	} {
		if err := act(); !errors.Is(err, problem) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.SetPrecheck(func() error { return nil })
	if _, at, err := s.Get(ctx, "kjv"); err != nil || at != revision {
		t.Errorf("revision %d, was %d: %v", at, revision, err)
	}
}

// TestDisconnectedWriteIsRefused checks that a node without a connection refuses writes and does
// not send them after it reconnects.
func TestDisconnectedWriteIsRefused(t *testing.T) {
	cfg := natsd.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Name: "test", Log: zerolog.Nop()}
	server, err := natsd.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	cfg.Listen = strings.TrimPrefix(server.URL(), "nats://")
	conn, err := nats.Connect(server.URL(), natsd.ClientOptions("test", zerolog.Nop())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	client, err := bucket.NewClient(conn, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), client, Config{Replicas: 1, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	spec := &messages.DeploymentSpec{Name: "kjv", Replicas: new(uint32(1))}
	revision, err := s.Put(t.Context(), spec, 0)
	if err != nil {
		t.Fatal(err)
	}
	server.Stop()
	testkit.Until(t, "the loss of the connection", func() bool { return !conn.IsConnected() })
	var failure Failure
	_, err = s.Put(t.Context(), spec, 0)
	if !errors.As(err, &failure) || failure.GetReason() != messages.Reason_REASON_NO_QUORUM {
		t.Errorf("got %v", err)
	}
	if server, err = natsd.Start(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the reconnect", func() bool { return conn.FlushTimeout(time.Second) == nil })
	if _, at, err := s.Get(t.Context(), "kjv"); err != nil || at != revision {
		t.Errorf("revision %d, was %d: %v", at, revision, err)
	}
}

// TestRefusedWriteIsNotAppliedLater checks that a write is refused while two of three servers are
// lost, and that it does not take effect when they are back.
func TestRefusedWriteIsNotAppliedLater(t *testing.T) {
	configs := make([]natsd.Config, 3)
	var routes []string
	var listeners []net.Listener
	for i := range configs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		routes = append(routes, "nats://"+l.Addr().String())
		configs[i] = natsd.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Name: fmt.Sprint("n", i),
			ClusterListen: l.Addr().String(), SharedProcess: true, Log: zerolog.Nop()}
	}
	for _, l := range listeners {
		l.Close()
	}
	servers := make([]*natsd.Server, 3)
	start := func(which ...int) {
		t.Helper()
		errs := make([]error, 3)
		var starting sync.WaitGroup
		for _, i := range which {
			configs[i].Routes = routes
			starting.Go(func() { servers[i], errs[i] = natsd.Start(t.Context(), configs[i]) })
		}
		starting.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	start(0, 1, 2)
	t.Cleanup(func() {
		for _, s := range servers {
			s.Stop()
		}
	})
	conn, err := servers[0].Connect(natsd.ClientOptions("test", zerolog.Nop())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	client, err := bucket.NewClient(conn, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), client, Config{Replicas: 3, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	noQuorum := errors.New("no quorum")
	s.SetPrecheck(func() error {
		if connected, _, majority := servers[0].Quorum(); connected < majority {
			return noQuorum
		}
		return nil
	})
	spec := &messages.DeploymentSpec{Name: "kjv", Replicas: new(uint32(1))}
	var revision uint64
	store := func() bool {
		_, over, err := s.Get(t.Context(), "kjv")
		if err != nil && !errors.Is(err, ErrNotFound) {
			return false
		}
		revision, err = s.Put(t.Context(), spec, over)
		return err == nil
	}
	testkit.Until(t, "storing a deployment", store)

	servers[1].Stop()
	servers[2].Stop()
	testkit.Until(t, "the loss of two servers", func() bool {
		connected, _, _ := servers[0].Quorum()
		return connected == 1
	})
	_, err = s.Put(t.Context(), &messages.DeploymentSpec{Name: "kjv", Replicas: new(uint32(2))}, revision)
	if !errors.Is(err, noQuorum) {
		t.Errorf("got %v", err)
	}

	start(1, 2)
	testkit.Until(t, "reading the deployment", func() bool {
		_, _, err := s.Get(t.Context(), "kjv")
		return err == nil
	})
	if got, at, err := s.Get(t.Context(), "kjv"); err != nil || at != revision || got.GetReplicas() != 1 {
		t.Errorf("revision %d with %d replicas, was %d with 1: %v", at, got.GetReplicas(), revision, err)
	}
	testkit.Until(t, "changing the deployment", store)
}
