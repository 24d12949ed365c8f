package store

import (
	"context"
	"strings"
	"testing"
	"time"

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
func (g fakeEntry) Created() time.Time              { return time.Time{} }
func (g fakeEntry) Operation() jetstream.KeyValueOp { return jetstream.KeyValuePut }

// fakeWatcher is a watch with given updates.
type fakeWatcher struct {
	jetstream.KeyWatcher
	updates chan jetstream.KeyValueEntry
}

func (w fakeWatcher) Updates() <-chan jetstream.KeyValueEntry { return w.updates }

// TestApplyRejectsEntryOfNewBucket checks that this node keeps a deletion that it knows when a node
// that missed the deletion restores the entry in a new bucket.
func TestApplyRejectsEntryOfNewBucket(t *testing.T) {
	s, _ := open(t)
	known := s.mirror.lastRevision() + 10
	s.mirror.put(nodes+"a", entry{revision: known, deleted: true})
	w := fakeWatcher{updates: make(chan jetstream.KeyValueEntry, 1)}
	follow := func(revision uint64) (applied []uint64) {
		t.Helper()
		w.updates <- fakeEntry{revision: revision}
		close(w.updates)
		to := watch{prefix: nodes, apply: func(e jetstream.KeyValueEntry) { applied = append(applied, e.Revision()) }}
		_ = s.consume(t.Context(), &to, w, known)
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

// TestMarkDeleted checks that a key that the bucket no longer lists counts as deleted and is not
// restored later.
func TestMarkDeleted(t *testing.T) {
	var m mirror
	for _, key := range []string{"nodes.a", "nodes.b", "pins.c"} {
		m.put(key, entry{value: []byte("v"), revision: 5})
	}
	at := m.lastRevision()
	m.put("nodes.d", entry{value: []byte("v"), revision: at + 1}) // written during the listing
	for _, key := range m.unlisted("nodes.", map[string]bool{"nodes.a": true}, at) {
		m.markDeleted(key, at)
	}
	m.markDeleted("nodes.d", at)
	all := m.snapshot()
	if all["nodes.a"].deleted || !all["nodes.b"].deleted || all["pins.c"].deleted || all["nodes.d"].deleted {
		t.Errorf("%+v", all)
	}
	m.put("nodes.a", entry{revision: 4, deleted: true})
	if m.snapshot()["nodes.a"].deleted {
		t.Error("an older revision replaced a newer one")
	}
}

// emptyListing is a watch whose server does not have the keys yet.
type emptyListing struct {
	jetstream.KeyWatcher
	updates chan jetstream.KeyValueEntry
}

func (w emptyListing) Updates() <-chan jetstream.KeyValueEntry { return w.updates }

// TestListingBehindLeader checks that a key does not count as deleted because the server that sent a
// listing is behind the leader, and that the watch delivers it before the end of the listing.
func TestListingBehindLeader(t *testing.T) {
	s, _ := open(t)
	s.mirror.put(deployments+"m", entry{value: []byte("{}"), revision: put(t, s, "m", 1)})
	w := emptyListing{updates: make(chan jetstream.KeyValueEntry, 1)}
	w.updates <- nil
	close(w.updates)
	var applied []string
	err := s.consume(t.Context(), &watch{prefix: deployments, apply: func(e jetstream.KeyValueEntry) {
		if e == nil {
			applied = append(applied, "end")
			return
		}
		applied = append(applied, e.Key())
	}}, w, s.mirror.lastRevision())
	if got := strings.Join(applied, " "); got != deployments+"m end" || err == nil {
		t.Errorf("the watch delivered %q, %v", got, err)
	}
	if h := s.mirror.snapshot()[deployments+"m"]; h.deleted || h.revision == 0 {
		t.Errorf("the mirror has %+v", h)
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
