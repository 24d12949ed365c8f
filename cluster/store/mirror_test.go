package store

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/messages"
)

// fakeEntry is an entry of a watch.
type fakeEntry struct {
	jetstream.KeyValueEntry
	revision uint64
}

func (g fakeEntry) Key() string                     { return nodes + "a" }
func (g fakeEntry) Value() []byte                   { return []byte(`{"name":"a"}`) }
func (g fakeEntry) Revision() uint64                { return g.revision }
func (g fakeEntry) Operation() jetstream.KeyValueOp { return jetstream.KeyValuePut }

// fakeWatcher is a watch with given updates.
type fakeWatcher struct {
	jetstream.KeyWatcher
	updates chan jetstream.KeyValueEntry
}

func (w fakeWatcher) Updates() <-chan jetstream.KeyValueEntry { return w.updates }

// TestApplyRejectsEntryOfNewBucket checks that an entry restored by a node that missed a deletion
// does not hide the deletion that this node knows.
func TestApplyRejectsEntryOfNewBucket(t *testing.T) {
	s, _ := open(t)
	known := s.mirror.lastRevision() + 10
	s.mirror.put(nodes+"a", entry{revision: known, deleted: true})
	w := fakeWatcher{updates: make(chan jetstream.KeyValueEntry, 1)}
	follow := func(revision uint64) (applied []uint64) {
		t.Helper()
		w.updates <- fakeEntry{revision: revision}
		close(w.updates)
		_ = s.consume(t.Context(), w, nodes, known, nil, nil,
			func(e jetstream.KeyValueEntry) { applied = append(applied, e.Revision()) })
		w.updates = make(chan jetstream.KeyValueEntry, 1)
		return applied
	}
	if applied := follow(known + revisionGap + 1); len(applied) != 0 || !s.mirror.snapshot()[nodes+"a"].deleted ||
		s.mirror.lastRevision() != known {
		t.Errorf("applied %v, known %+v", applied, s.mirror.snapshot())
	}
	if applied := follow(known + revisionGap); len(applied) != 1 || s.mirror.snapshot()[nodes+"a"].deleted {
		t.Errorf("applied %v, known %+v", applied, s.mirror.snapshot())
	}
}

// TestDeleteUnlisted checks that a key that the bucket no longer lists counts as deleted and is not
// restored later.
func TestDeleteUnlisted(t *testing.T) {
	var m mirror
	for _, key := range []string{"nodes.a", "nodes.b", "pins.c"} {
		m.put(key, entry{value: []byte("v"), revision: 5})
	}
	at := m.lastRevision()
	m.put("nodes.d", entry{value: []byte("v"), revision: at + 1}) // written during the listing
	m.deleteUnlisted("nodes.", map[string]bool{"nodes.a": true}, at)
	all := m.snapshot()
	if all["nodes.a"].deleted || !all["nodes.b"].deleted || all["pins.c"].deleted || all["nodes.d"].deleted {
		t.Errorf("%+v", all)
	}
	m.put("nodes.a", entry{revision: 4, deleted: true})
	if m.snapshot()["nodes.a"].deleted {
		t.Error("an older revision replaced a newer one")
	}
}

// TestWatchMarksForgottenKeyDeleted checks that a watch's listing marks the mirror's other keys as
// deleted.
func TestWatchMarksForgottenKeyDeleted(t *testing.T) {
	s, _ := open(t)
	s.mirror.put(nodes+"old", entry{value: []byte(`{"name":"old"}`), revision: 1})
	f := &recorder[*messages.NodeSpec]{last: map[string]*messages.NodeSpec{}}
	startWatch(t, func(ctx context.Context) error {
		return s.WatchNodes(ctx, func(c NodeChange) { f.record(c.Name, c.Spec, c.Synced) })
	})
	f.until(t, "the end of the stored keys", func() bool { return f.synced == 1 })
	if !s.mirror.snapshot()[nodes+"old"].deleted {
		t.Error("a forgotten key would be restored")
	}
}
