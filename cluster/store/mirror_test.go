package store

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/messages"
)

// given is an entry of a watch.
type given struct {
	jetstream.KeyValueEntry
	revision uint64
}

func (g given) Key() string                     { return nodes + "a" }
func (g given) Value() []byte                   { return []byte(`{"name":"a"}`) }
func (g given) Revision() uint64                { return g.revision }
func (g given) Operation() jetstream.KeyValueOp { return jetstream.KeyValuePut }

// watcher is a watch that gives entries.
type watcher struct {
	jetstream.KeyWatcher
	updates chan jetstream.KeyValueEntry
}

func (w watcher) Updates() <-chan jetstream.KeyValueEntry { return w.updates }

// TestEntryOfANewBucket: what another node restored, who had not heard of a deletion, does not hide
// that this one has.
func TestEntryOfANewBucket(t *testing.T) {
	s, _ := open(t)
	known := s.seen.last() + 10
	s.seen.put(nodes+"a", held{revision: known, deleted: true})
	w := watcher{updates: make(chan jetstream.KeyValueEntry, 1)}
	follow := func(revision uint64) (told []uint64) {
		t.Helper()
		w.updates <- given{revision: revision}
		close(w.updates)
		_ = s.follow(t.Context(), w, nodes, known, nil, nil, func(e jetstream.KeyValueEntry) { told = append(told, e.Revision()) })
		w.updates = make(chan jetstream.KeyValueEntry, 1)
		return told
	}
	if told := follow(known + gap + 1); len(told) != 0 || !s.seen.all()[nodes+"a"].deleted || s.seen.last() != known {
		t.Errorf("told %v, known %+v", told, s.seen.all())
	}
	if told := follow(known + gap); len(told) != 1 || s.seen.all()[nodes+"a"].deleted {
		t.Errorf("told %v, known %+v", told, s.seen.all())
	}
}

// TestRetain: a key that the bucket has forgotten was deleted, and is not restored later.
func TestRetain(t *testing.T) {
	var m mirror
	for _, key := range []string{"nodes.a", "nodes.b", "pins.c"} {
		m.put(key, held{value: []byte("v"), revision: 5})
	}
	at := m.last()
	m.put("nodes.d", held{value: []byte("v"), revision: at + 1}) // written while the watch was listing
	m.retain("nodes.", map[string]bool{"nodes.a": true}, at)
	all := m.all()
	if all["nodes.a"].deleted || !all["nodes.b"].deleted || all["pins.c"].deleted || all["nodes.d"].deleted {
		t.Errorf("%+v", all)
	}
	m.put("nodes.a", held{revision: 4, deleted: true})
	if m.all()["nodes.a"].deleted {
		t.Error("an older revision counts")
	}
}

// TestForgottenKey: a watch that lists all that is stored tells the mirror what is not.
func TestForgottenKey(t *testing.T) {
	s, _ := open(t)
	s.seen.put(nodes+"old", held{value: []byte(`{"name":"old"}`), revision: 1})
	f := &followed[*messages.NodeSpec]{last: map[string]*messages.NodeSpec{}}
	watching(t, func(ctx context.Context) error {
		return s.WatchNodes(ctx, func(c NodeChange) { f.tell(c.Name, c.Spec, c.Synced) })
	})
	f.until(t, "the end of what is stored", func() bool { return f.synced == 1 })
	if !s.seen.all()[nodes+"old"].deleted {
		t.Error("it would be restored")
	}
}
