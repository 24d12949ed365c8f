package store

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"troupe/cluster/bucket"
	"troupe/messages"
)

// second opens the same bucket as another node would.
func second(t *testing.T, s *Store) *Store {
	t.Helper()
	other, err := Open(t.Context(), s.client, Config{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return other
}

// TestRestoreMergesNodes checks that the highest revision known to any node wins, in whatever order
// the nodes restore. Deletions count as revisions. Values written after the bucket was recreated
// are newer than all restored ones.
func TestRestoreMergesNodes(t *testing.T) {
	for name, order := range map[string]func(a, b *Store, restore func(...*Store)){
		"a then b": func(a, b *Store, restore func(...*Store)) { restore(a); restore(b) },
		"b then a": func(a, b *Store, restore func(...*Store)) { restore(b); restore(a) },
		"at once":  func(a, b *Store, restore func(...*Store)) { restore(a, b) },
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := open(t)
			b := second(t, a)
			first := a.mirror.lastRevision()
			know := func(s *Store, key, value string, revision uint64) {
				s.mirror.put(key, entry{value: []byte(value), revision: first + revision, deleted: value == ""})
			}
			know(a, "deployments.x", `{"name":"x","replicas":2}`, 100)
			know(b, "deployments.x", `{"name":"x","replicas":1}`, 90)
			know(a, "deployments.y", "", 120)
			know(b, "deployments.y", `{"name":"y"}`, 100)
			know(b, "deployments.z", `{"name":"z"}`, 130)
			know(a, "deployments.w", `{"name":"w","replicas":1}`, 140)
			know(a, "adapters.m/l", `{"name":"l","model":"m"}`, 50)
			know(b, "adapters.m/l", `{"name":"l","model":"m"}`, 50)
			if err := a.client.Delete(t.Context(), Bucket); err != nil {
				t.Fatal(err)
			}
			late := second(t, a) // this node knows nothing of the deleted bucket and creates a new one
			spec := &messages.DeploymentSpec{Name: "w", Replicas: new(uint32(7))}
			if _, err := late.Put(t.Context(), spec, 0); err != nil {
				t.Fatal(err)
			}
			var events sync.Map
			order(a, b, func(stores ...*Store) {
				var restoring sync.WaitGroup
				for _, s := range stores {
					tell := func(kind, _ string) { events.Store(kind, true) }
					s.onEvent.Store(&tell)
					restoring.Go(func() {
						if err := s.ensureRestored(t.Context()); err != nil || s.Lost() {
							t.Errorf("%v, lost: %v", err, s.Lost())
						}
					})
				}
				restoring.Wait()
			})
			for name, replicas := range map[string]uint32{"x": 2, "w": 7, "z": 1} {
				if got, _, err := late.Get(t.Context(), name); err != nil || got.GetReplicas() != replicas {
					t.Errorf("%s: %v, %v", name, got, err)
				}
			}
			if _, _, err := late.Get(t.Context(), "y"); !errors.Is(err, ErrNotFound) {
				t.Errorf("deleted deployment y is back: %v", err)
			}
			adapter, at, err := late.Adapter(t.Context(), "m", "l")
			if err != nil || adapter.GetRevision() != first+50 || at == adapter.GetRevision() {
				t.Errorf("%v at %d, %v", adapter, at, err)
			}
			for _, kind := range []string{"store.lost", "store.restored"} {
				if _, seen := events.Load(kind); !seen {
					t.Errorf("no event %s", kind)
				}
			}
		})
	}
}

// TestRecreatedBucketContinuesRevisions checks that a recreated bucket starts above all revisions
// seen, whatever the clock says.
func TestRecreatedBucketContinuesRevisions(t *testing.T) {
	s, _ := open(t)
	s.mirror.advance(1 << 40) // as if the clock had been set back since
	if err := s.client.Delete(t.Context(), Bucket); err != nil {
		t.Fatal(err)
	}
	if err := s.ensureRestored(t.Context()); err != nil {
		t.Fatal(err)
	}
	if revision, err := s.Put(t.Context(), &messages.DeploymentSpec{Name: "m"}, 0); err != nil || revision <= 1<<40 {
		t.Errorf("revision %d, %v", revision, err)
	}
}

// TestWatchReportsNoDeletionForLostBucket checks that a watch reports no deletion when the bucket
// is deleted, and continues with the recreated one.
func TestWatchReportsNoDeletionForLostBucket(t *testing.T) {
	s, _ := open(t)
	f := &recorder[*messages.NodeSpec]{last: map[string]*messages.NodeSpec{}}
	deleted := false
	startWatch(t, func(ctx context.Context) error {
		for {
			err := s.WatchNodes(ctx, func(c NodeChange) {
				f.record(c.Name, c.Spec, c.Synced)
				f.mu.Lock()
				deleted = deleted || !c.Synced && c.Spec == nil
				f.mu.Unlock()
			})
			if ctx.Err() != nil {
				return err
			}
		}
	})
	if err := s.PutNode(t.Context(), &messages.NodeSpec{Name: "a", Draining: true}); err != nil {
		t.Fatal(err)
	}
	f.until(t, "the node", func() bool { return f.last["a"].GetDraining() && f.synced == 1 })
	if err := s.client.Delete(t.Context(), Bucket); err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Open(t.Context(), s.client, bucket.Config{ // recreated by another node
		Name: Bucket, FirstRevision: s.mirror.lastRevision() + 2*revisionGap,
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.ensureRestored(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.until(t, "all keys again", func() bool { return f.synced == 2 && f.last["a"].GetDraining() })
	if err := s.PutNode(t.Context(), &messages.NodeSpec{Name: "b", Draining: true}); err != nil {
		t.Fatal(err)
	}
	f.until(t, "a change", func() bool { return f.last["b"].GetDraining() })
	f.mu.Lock()
	defer f.mu.Unlock()
	if deleted {
		t.Error("a deletion was reported for a lost bucket")
	}
}

// TestServerRestartIsNoLoss checks that a restart of the server is not reported as a loss of the
// bucket.
func TestServerRestartIsNoLoss(t *testing.T) {
	s, restart := open(t)
	if _, err := s.Put(t.Context(), &messages.DeploymentSpec{Name: "m"}, 0); err != nil {
		t.Fatal(err)
	}
	var events []string
	tell := func(kind, detail string) { events = append(events, kind+": "+detail) }
	s.onEvent.Store(&tell)
	restart()
	f := &recorder[struct{}]{last: map[string]struct{}{}}
	f.until(t, "an answer from the server", func() bool { return s.ensureRestored(t.Context()) == nil })
	if len(events) != 0 || s.Lost() {
		t.Errorf("%q, lost: %v", events, s.Lost())
	}
}
