package natskv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/bucket"
	"troupe/cluster/natsd"
	"troupe/testkit/natskv"
)

// side is one of the two implementations of bucket.Client, with an empty store.
type side struct {
	a, b   bucket.Client // two connections
	memory bool          // the store in memory
	// cut cuts a off, and returns when a knows. heal undoes it.
	cut, heal func()
}

// TestConformance runs the same cases against nats-server and against the store in memory.
func TestConformance(t *testing.T) {
	for _, c := range cases {
		t.Run("nats-server/"+c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, startServer(t))
		})
		t.Run("memory/"+c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.run(t, startMemory(t)) })
		})
	}
}

func startServer(t *testing.T) side {
	dir, listen := t.TempDir(), "127.0.0.1:0"
	var server *natsd.Server
	start := func() {
		var err error
		if server, err = natsd.Start(context.Background(), natsd.Config{
			Listen: listen, StoreDir: dir, Name: "test", Log: zerolog.Nop(),
		}); err != nil {
			t.Fatal(err)
		}
	}
	start()
	listen = strings.TrimPrefix(server.URL(), "nats://")
	t.Cleanup(func() { server.Stop() })
	connect := func() bucket.Client {
		conn, err := nats.Connect(server.URL(), natsd.ClientOptions("test", zerolog.Nop())...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		c, err := bucket.NewClient(conn, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	s := side{a: connect(), b: connect(), heal: start}
	s.cut = func() {
		server.Stop()
		until(t, "a is disconnected", func() bool { return !s.a.Connected() })
	}
	return s
}

func startMemory(t *testing.T) side {
	server := natskv.NewServer(time.Now)
	a, b := server.Connect(supervise.System), server.Connect(supervise.System)
	t.Cleanup(func() { a.Close(); b.Close() })
	return side{a: a, b: b, memory: true, heal: a.Heal, cut: func() {
		a.Cut()
		until(t, "a is disconnected", func() bool { return !a.Connected() })
	}}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so after 20 s: %s", what)
		}
	}
}

// open creates a bucket whose first revision is 100, with changes republished below "changes".
func (s side) open(t *testing.T, name string) bucket.KeyValue {
	t.Helper()
	kv, err := bucket.OpenKV(t.Context(), s.a, bucket.Config{
		Name: name, FirstRevision: 100, Republish: "changes", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// next returns the next update of a watch as text.
func next(t *testing.T, w jetstream.KeyWatcher) string {
	t.Helper()
	select {
	case e := <-w.Updates():
		if e == nil {
			return "end"
		}
		operation := strings.TrimPrefix(e.Operation().String(), "KeyValuePutOp")
		return fmt.Sprintf("%s %d %s%q", e.Key(), e.Revision(), operation, e.Value())
	case <-time.After(20 * time.Second):
		t.Fatal("no update")
		return ""
	}
}

// follow checks that a watch has some changes in their order. With a nats-server, the earlier ones of a key may be
// missing, since a client that was too slow for its heartbeats starts the watch again, with the last value of each key.
func (s side) follow(t *testing.T, w jetstream.KeyWatcher, changes ...string) {
	t.Helper()
	key := func(change string) string { return strings.Fields(change)[0] }
	for len(changes) > 0 {
		got := next(t, w)
		at := slices.Index(changes, got)
		if at < 0 {
			t.Fatalf("change: %s, want %s", got, changes[0])
		}
		for i, missing := range changes[:at] {
			later := slices.ContainsFunc(changes[i+1:], func(c string) bool { return key(c) == key(missing) })
			if s.memory || !later {
				t.Errorf("change: %s, want %s", got, missing)
			}
		}
		changes = changes[at+1:]
	}
}

var deletion = bucket.Value{Header: nats.Header{"KV-Operation": {"DEL"}}}

func value(text string) bucket.Value { return bucket.Value{Data: []byte(text)} }

// check reports an error that is not the wanted one.
func check(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// must fails the test on an error.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
