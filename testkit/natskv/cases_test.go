package natskv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/cluster/bucket"
)

// cases are the properties of nats-server that the product relies on.
var cases = []struct {
	name string
	run  func(*testing.T, side)
}{
	{"a write needs the revision that is stored", func(t *testing.T, s side) {
		s.open(t, "x")
		write := func(c bucket.Client, key string, v bucket.Value, over uint64) (uint64, error) {
			return c.Write(t.Context(), "x", key, v, over)
		}
		for i, step := range []struct {
			key  string
			v    bucket.Value
			over uint64
			want uint64 // 0: conflict
		}{
			{"k", value("1"), 7, 0}, {"k", value("1"), 0, 100}, {"k", value("2"), 0, 0}, {"k", value("2"), 100, 101},
			{"k", value("3"), 100, 0}, {"other", value("1"), 0, 102}, {"k", value("3"), 101, 103},
			{"k", deletion, 101, 0}, {"k", deletion, 103, 104}, {"k", value("4"), 0, 0}, {"k", value("4"), 104, 105},
		} {
			got, err := write([]bucket.Client{s.a, s.b}[i%2], step.key, step.v, step.over)
			conflict := step.want == 0
			if got != step.want || bucket.IsConflict(err) != conflict || (err != nil) != conflict {
				t.Errorf("write %d over %d: revision %d, %v; want %d", i, step.over, got, err, step.want)
			}
		}
	}},
	{"the last value of a key, or that it was deleted", func(t *testing.T, s side) {
		s.open(t, "x")
		_, err := s.a.Last(t.Context(), "x", "k")
		check(t, "a key that never was", err, jetstream.ErrMsgNotFound)
		for i, v := range []bucket.Value{value("1"), value("2"), deletion} {
			over := uint64(0)
			if i > 0 {
				over = 99 + uint64(i)
			}
			revision := must[uint64](t)(s.a.Write(t.Context(), "x", "k", v, over))
			m := must[*jetstream.RawStreamMsg](t)(s.b.Last(t.Context(), "x", "k"))
			if m.Sequence != revision || string(m.Data) != string(v.Data) ||
				m.Header.Get("KV-Operation") != v.Header.Get("KV-Operation") {
				t.Errorf("%+v at %d, want %+v at %d", m, m.Sequence, v, revision)
			}
		}
	}},
	{"all keys in order, with deleted ones", func(t *testing.T, s side) {
		s.open(t, "x")
		for _, key := range []string{"b", "a.c", "a", "d"} {
			must[uint64](t)(s.a.Write(t.Context(), "x", key, value(key), 0))
		}
		must[uint64](t)(s.a.Write(t.Context(), "x", "d", deletion, 103))
		keys, last, err := s.b.Keys(t.Context(), "x")
		if !slices.Equal(keys, []string{"a", "a.c", "b", "d"}) || last != 104 || err != nil {
			t.Errorf("%q up to %d, %v", keys, last, err)
		}
	}},
	{"the KV view and its errors", func(t *testing.T, s side) {
		kv, ctx := s.open(t, "x"), t.Context()
		_, err := kv.Get(ctx, "k")
		check(t, "get a key that never was", err, jetstream.ErrKeyNotFound)
		_, err = kv.Update(ctx, "k", nil, 5)
		check(t, "update a key that never was", err, jetstream.ErrKeyRevisionMismatch)
		first := must[uint64](t)(kv.Create(ctx, "k", []byte("1")))
		_, err = kv.Create(ctx, "k", []byte("2"))
		check(t, "create a key that exists", err, jetstream.ErrKeyExists)
		second := must[uint64](t)(kv.Update(ctx, "k", []byte("2"), first))
		_, err = kv.Update(ctx, "k", []byte("3"), first)
		check(t, "update an old revision", err, jetstream.ErrKeyRevisionMismatch)
		check(t, "delete an old revision", kv.Delete(ctx, "k", first), jetstream.ErrKeyRevisionMismatch)
		e := must[jetstream.KeyValueEntry](t)(kv.Get(ctx, "k"))
		if e.Key() != "k" || string(e.Value()) != "2" || e.Revision() != second || second != 101 ||
			e.Operation() != jetstream.KeyValuePut || e.Bucket() != "x" {
			t.Errorf("%+v, want revision %d", e, second)
		}
		check(t, "delete", kv.Delete(ctx, "k", second), nil)
		_, err = kv.Get(ctx, "k")
		check(t, "get a deleted key", err, jetstream.ErrKeyNotFound)
		if again := must[uint64](t)(kv.Create(ctx, "k", []byte("4"))); again != 103 {
			t.Errorf("created again at %d", again)
		}
		if put := must[uint64](t)(kv.Put(ctx, "k", []byte("5"))); put != 104 {
			t.Errorf("put at %d", put)
		}
		check(t, "delete any revision", kv.Delete(ctx, "k", 0), nil)
		check(t, "delete a deleted key", kv.Delete(ctx, "k", 0), nil)
		check(t, "delete a key that never was", kv.Delete(ctx, "never", 0), nil)
		for _, key := range []string{"", ".a", "a.", "a..b", "a b", "a*", ">"} {
			_, err = kv.Get(ctx, key)
			check(t, fmt.Sprintf("get the key %q", key), err, jetstream.ErrInvalidKey)
			_, err = kv.Put(ctx, key, nil)
			check(t, fmt.Sprintf("put the key %q", key), err, jetstream.ErrInvalidKey)
		}
		for _, key := range []string{"a/b", "A-1_2=3", "m.v1.5"} {
			_, err = kv.Put(ctx, key, nil)
			check(t, fmt.Sprintf("put the key %q", key), err, nil)
		}
	}},
	{"a watch has the stored values in order, and then changes", func(t *testing.T, s side) {
		kv := s.open(t, "x")
		empty := must[jetstream.KeyWatcher](t)(kv.Watch(t.Context(), ">"))
		if got := next(t, empty); got != "end" {
			t.Errorf("a watch of an empty bucket: %s", got)
		}
		for _, key := range []string{"p.c", "p.a", "q", "p.b", "p.c"} {
			must[uint64](t)(kv.Put(t.Context(), key, []byte("v")))
		}
		check(t, "delete", kv.Delete(t.Context(), "p.a", 0), nil)
		some := must[jetstream.KeyWatcher](t)(kv.Watch(t.Context(), "p.>"))
		for _, want := range []string{`p.b 103 "v"`, `p.c 104 "v"`, `p.a 105 KeyValueDeleteOp""`, "end"} {
			if got := next(t, some); got != want {
				t.Errorf("stored: %s, want %s", got, want)
			}
		}
		for i, key := range []string{"p.a", "q", "p.c", "p.d"} {
			must[uint64](t)(s.b.Write(t.Context(), "x", key, value(key), []uint64{105, 102, 104, 0}[i]))
		}
		check(t, "delete", kv.Delete(t.Context(), "p.d", 0), nil)
		later := []string{`p.a 106 "p.a"`, `p.c 108 "p.c"`, `p.d 109 "p.d"`, `p.d 110 KeyValueDeleteOp""`}
		s.follow(t, some, later...)
		s.follow(t, empty, `p.c 100 "v"`, `p.a 101 "v"`, `q 102 "v"`, `p.b 103 "v"`, `p.c 104 "v"`,
			`p.a 105 KeyValueDeleteOp""`, later[0], `q 107 "q"`, later[1], later[2], later[3])
		check(t, "stop", errors.Join(some.Stop(), empty.Stop()), nil)
		until(t, "the channel is closed", func() bool {
			select {
			case _, open := <-some.Updates():
				return !open
			default:
				return false
			}
		})
	}},
	{"changes are republished in order", func(t *testing.T, s side) {
		s.open(t, "x")
		got := make(chan string, 10)
		sub := must[bucket.Subscription](t)(s.b.Subscribe("changes.>", func(m *nats.Msg) {
			h := m.Header
			got <- fmt.Sprint(m.Subject, " ", h.Get("Nats-Sequence"), " over ", h.Get("Nats-Last-Sequence"), " ",
				h.Get("KV-Operation"), " ", h.Get("Mine"), string(m.Data))
		}))
		_, err := s.b.Info(t.Context(), "x") // the server has the subscription
		check(t, "info", err, nil)
		for i, step := range []struct {
			v    bucket.Value
			over uint64
			want string
		}{
			{bucket.Value{Header: nats.Header{"Mine": {"h"}}, Data: []byte("1")}, 0, "changes.k 100 over 0  h1"},
			{value("2"), 100, "changes.k 101 over 100  2"},
			{deletion, 101, "changes.k 102 over 101 DEL "},
		} {
			must[uint64](t)(s.a.Write(t.Context(), "x", "k", step.v, step.over))
			if now := <-got; now != step.want {
				t.Errorf("change %d: %s, want %s", i, now, step.want)
			}
		}
		if n, err := sub.Dropped(); n != 0 || err != nil {
			t.Errorf("%d dropped, %v", n, err)
		}
		check(t, "unsubscribe", sub.Unsubscribe(), nil)
	}},
	{"revisions continue where a purge says", func(t *testing.T, s side) {
		s.open(t, "x")
		must[uint64](t)(s.a.Write(t.Context(), "x", "k", value("1"), 0))
		must[uint64](t)(s.a.Write(t.Context(), "x", "j", value("1"), 0))
		check(t, "purge", s.a.Purge(t.Context(), "x", 101), nil)
		keys, last, err := s.a.Keys(t.Context(), "x")
		if !slices.Equal(keys, []string{"j"}) || last != 101 || err != nil {
			t.Errorf("%q up to %d, %v", keys, last, err)
		}
		check(t, "purge", s.a.Purge(t.Context(), "x", 5000), nil)
		if keys, last, err := s.a.Keys(t.Context(), "x"); len(keys) > 0 || last != 4999 || err != nil {
			t.Errorf("%q up to %d, %v", keys, last, err)
		}
		if revision, err := s.a.Write(t.Context(), "x", "k", value("2"), 0); revision != 5000 || err != nil {
			t.Errorf("revision %d, %v", revision, err)
		}
	}},
	{"a bucket that is missing or created again", func(t *testing.T, s side) {
		_, err := s.a.Info(t.Context(), "x")
		check(t, "info", err, jetstream.ErrStreamNotFound)
		_, err = s.a.Last(t.Context(), "x", "k")
		check(t, "last", err, jetstream.ErrStreamNotFound)
		_, _, err = s.a.Keys(t.Context(), "x")
		check(t, "keys", err, jetstream.ErrStreamNotFound)
		_, err = s.a.Write(t.Context(), "x", "k", value("1"), 0)
		check(t, "write", err, jetstream.ErrNoStreamResponse)
		_, err = s.a.KeyValue(t.Context(), "x")
		check(t, "KV view", err, jetstream.ErrBucketNotFound)
		check(t, "delete", s.a.Delete(t.Context(), "x"), jetstream.ErrStreamNotFound)

		kv := s.open(t, "x")
		before := must[*jetstream.StreamInfo](t)(s.a.Info(t.Context(), "x"))
		must[uint64](t)(kv.Put(t.Context(), "k", []byte("1")))
		check(t, "delete", s.a.Delete(t.Context(), "x"), nil)
		_, err = kv.Get(t.Context(), "k")
		check(t, "get", err, jetstream.ErrStreamNotFound)
		_, err = kv.Update(t.Context(), "k", nil, 100)
		check(t, "update", err, jetstream.ErrNoStreamResponse)
		_, err = s.a.Last(t.Context(), "x", "k")
		check(t, "last", err, jetstream.ErrStreamNotFound)
		if _, err = kv.Watch(t.Context(), ">"); err == nil {
			t.Error("a watch of a deleted bucket began")
		}
		s.open(t, "x")
		after := must[*jetstream.StreamInfo](t)(s.a.Info(t.Context(), "x"))
		if before.Created.Equal(after.Created) || after.State.LastSeq != 99 || before.State.LastSeq != 99 {
			t.Errorf("%+v, then %+v", before, after)
		}
		if revision, err := kv.Put(t.Context(), "k", nil); revision != 100 || err != nil {
			t.Errorf("the old view of the new bucket: revision %d, %v", revision, err)
		}
	}},
	// Users start a watch over when the bucket was created again or the connection came back. A watch of nats-server
	// lacks what is written to the new bucket at revisions that it has had, and continues up to 20 s after the
	// connection is back; one of the store in memory never continues.
	{"a watch of a bucket that is created again", func(t *testing.T, s side) {
		kv := s.open(t, "x")
		must[uint64](t)(kv.Put(t.Context(), "k", []byte("1")))
		old := must[jetstream.KeyWatcher](t)(kv.Watch(t.Context(), ">"))
		s.follow(t, old, `k 100 "1"`, "end")
		check(t, "delete", s.a.Delete(t.Context(), "x"), nil)
		s.open(t, "x")
		must[uint64](t)(kv.Put(t.Context(), "k", []byte("2")))
		s.follow(t, must[jetstream.KeyWatcher](t)(kv.Watch(t.Context(), ">")), `k 100 "2"`, "end")
		select {
		case e, ok := <-old.Updates():
			t.Errorf("the watch from before: %v, %v", e, ok)
		default:
		}
		_ = old.Stop() // of nats-server, its consumer is gone
	}},
	{"a bucket with other settings", func(t *testing.T, s side) {
		s.open(t, "x")
		cfg := must[*jetstream.StreamInfo](t)(s.a.Info(t.Context(), "x")).Config
		_, err := s.b.Create(t.Context(), cfg)
		check(t, "create it again", err, nil)
		cfg.Description = "another"
		_, err = s.b.Create(t.Context(), cfg)
		check(t, "create it with other settings", err, jetstream.ErrStreamNameAlreadyInUse)
		info, err := s.b.Update(t.Context(), cfg)
		if err != nil || info.Config.Description != "another" {
			t.Errorf("%+v, %v", info, err)
		}
		cfg.Name, cfg.Subjects, cfg.Replicas, cfg.RePublish = "KV_y", []string{"$KV.y.>"}, 3, nil
		_, err = s.b.Create(t.Context(), cfg)
		if api := (*jetstream.APIError)(nil); !errors.As(err, &api) || api.ErrorCode != 10074 {
			t.Errorf("three replicas on one server: %v", err)
		}
		if s.a.Clustered() {
			t.Error("one server is clustered")
		}
	}},
	{"requests end with their context", func(t *testing.T, s side) {
		kv := s.open(t, "x")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := kv.Get(ctx, "k")
		check(t, "get", err, context.Canceled)
		_, err = s.a.Write(ctx, "x", "k", value("1"), 0)
		check(t, "write", err, context.Canceled)
	}},
	{"a lost connection comes back", func(t *testing.T, s side) {
		kv := s.open(t, "x")
		var connected, changes atomic.Int32
		stop := s.a.OnConnected(func() { connected.Add(1) })
		defer stop()
		must[bucket.Subscription](t)(s.a.Subscribe("changes.>", func(*nats.Msg) { changes.Add(1) }))
		must[uint64](t)(kv.Put(t.Context(), "k", []byte("1")))
		until(t, "one change", func() bool { return changes.Load() == 1 })
		old := must[jetstream.KeyWatcher](t)(kv.Watch(t.Context(), ">"))
		s.follow(t, old, `k 100 "1"`, "end")
		s.cut()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := kv.Get(ctx, "k")
		check(t, "get", err, context.DeadlineExceeded)
		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err = kv.Put(ctx, "late", []byte("2"))
		check(t, "put", err, context.DeadlineExceeded)
		s.heal()
		until(t, "a is connected", func() bool { return s.a.Connected() && connected.Load() == 1 })
		if e := must[jetstream.KeyValueEntry](t)(kv.Get(t.Context(), "k")); string(e.Value()) != "1" {
			t.Errorf("%+v", e)
		}
		until(t, "the late write and its change", func() bool {
			_, err := kv.Get(t.Context(), "late")
			return err == nil && changes.Load() == 2
		})
		s.follow(t, must[jetstream.KeyWatcher](t)(kv.Watch(t.Context(), ">")), `k 100 "1"`, `late 101 "2"`, "end")
		select {
		case _, ok := <-old.Updates():
			if !ok {
				t.Error("the lost connection has ended the watch")
			}
		default:
		}
		_ = old.Stop() // a lost connection has ended it
		stop()
	}},
}
