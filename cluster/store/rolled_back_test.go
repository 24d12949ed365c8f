package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/messages"
	"troupe/testkit"
)

// TestRunningNodeRestoresRolledBackBucket checks that a running node restores revisions that the
// server has lost.
func TestRunningNodeRestoresRolledBackBucket(t *testing.T) {
	s, _ := open(t)
	n := openWithCopy(t, s, t.TempDir())
	put(t, n, "a", 1)
	last := n.mirror.lastRevision() + 10
	n.mirror.put(deployments+"b", entry{value: []byte(`{"name":"b","replicas":2}`), revision: last})
	if err := n.ensureRestored(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectReplicas(t, n, "a", 1)
	expectReplicas(t, n, "b", 2)
	if revision := put(t, n, "a", 3); revision <= last {
		t.Errorf("revision %d after %d", revision, last)
	}
}

// TestWriteToRolledBackBucket checks that a change is not confirmed that the restored revisions would
// replace, and that it succeeds afterwards.
func TestWriteToRolledBackBucket(t *testing.T) {
	unknown := func(what string, err error) {
		t.Helper()
		if f := (Failure{}); !errors.As(err, &f) || f.GetReason() != messages.Reason_REASON_OUTCOME_UNKNOWN {
			t.Errorf("%s in a bucket that lost its last revisions: %v", what, err)
		}
	}
	lose := func(n *Store) { // a later revision of a key that the bucket lacks
		last := n.mirror.lastRevision() + 10
		n.mirror.put(deployments+"a", entry{value: []byte(`{"name":"a","replicas":2}`), revision: last})
	}
	s, _ := open(t)
	n := openWithCopy(t, s, t.TempDir())
	at := put(t, n, "a", 1)
	put(t, n, "b", 1)
	lose(n)
	_, err := n.Put(t.Context(), &messages.DeploymentSpec{Name: "a", Replicas: new(uint32(3))}, at)
	unknown("a change", err)
	expectReplicas(t, n, "a", 2)
	put(t, n, "a", 3)
	expectReplicas(t, n, "a", 3)

	lose(n)
	unknown("a deletion", n.Delete(t.Context(), "a", false))
	expectReplicas(t, n, "a", 2)
	expectReplicas(t, n, "b", 1)
}

// TestLaterChangeOutranksLostRevision checks that a change that a node made after the bucket lost revisions,
// which the node had not seen, is not replaced by them.
func TestLaterChangeOutranksLostRevision(t *testing.T) {
	s, _ := open(t)
	n, late := openWithCopy(t, s, t.TempDir()), second(t, s)
	for _, name := range []string{"changed", "deleted", "unchanged", "unknown"} {
		put(t, n, name, 1)
	}
	lose := func(name string, stored time.Time) { // a later revision that the bucket lacks
		n.mirror.put(deployments+name, entry{value: fmt.Appendf(nil, `{"name":%q,"replicas":2}`, name),
			revision: n.mirror.lastRevision() + 10, stored: stored})
	}
	now := time.Now()
	lose("changed", now.Add(-time.Minute))
	lose("deleted", now.Add(-time.Minute))
	lose("unchanged", now.Add(time.Minute)) // since its last revision that the bucket has
	lose("unknown", time.Time{})
	put(t, late, "changed", 3)
	put(t, late, "unknown", 3)
	if err := late.Delete(t.Context(), "deleted", false); err != nil {
		t.Fatal(err)
	}
	for _, node := range []*Store{n, late} {
		if err := node.ensureRestored(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range []*Store{n, late} {
		expectReplicas(t, node, "changed", 3)
		expectReplicas(t, node, "deleted", 0)
		expectReplicas(t, node, "unchanged", 2)
		expectReplicas(t, node, "unknown", 2) // it cannot be known which is later
	}
	put(t, late, "changed", 4)
	expectReplicas(t, n, "changed", 4)
}

// TestLostRevisionIsRestoredBesideLaterOnes checks that a node that connects again restores a revision that the
// bucket has lost, although another change has its place by now.
func TestLostRevisionIsRestoredBesideLaterOnes(t *testing.T) {
	for _, changed := range []string{"known", "new"} {
		t.Run(changed, func(t *testing.T) {
			s, restart := open(t)
			n, late := openWithCopy(t, s, t.TempDir()), second(t, s)
			f := &recorder[*messages.NodeSpec]{last: map[string]*messages.NodeSpec{}}
			startWatch(t, func(ctx context.Context) error {
				for ctx.Err() == nil {
					_ = n.WatchNodes(ctx, func(c NodeChange) { f.record(c.Name, c.Spec, c.Synced) })
				}
				return ctx.Err()
			})
			f.until(t, "a watch", func() bool { return f.synced == 1 })
			n.mirror.put(deployments+"lost", entry{value: []byte(`{"name":"lost","replicas":2}`),
				revision: put(t, n, "known", 1) + 1})
			put(t, late, changed, 3)
			created := n.mirror.createdAt()
			if err := n.ensureRestored(t.Context()); err != nil || !n.mirror.createdAt().Equal(created) {
				t.Fatalf("restored without a lost connection: %v", err)
			}
			restart()
			for name, replicas := range map[string]uint32{"lost": 2, changed: 3} { // each node restores what it knows
				testkit.Until(t, "deployment "+name, func() bool {
					got, _, err := n.Get(t.Context(), name)
					return err == nil && got.GetReplicas() == replicas
				})
			}
		})
	}
}

// TestPurgedDeletionIsNoLoss checks that a node that connects again does not restore a key whose deletion was
// purged meanwhile.
func TestPurgedDeletionIsNoLoss(t *testing.T) {
	s, _ := open(t)
	n, other := openWithCopy(t, s, t.TempDir()), second(t, s)
	put(t, n, "stays", 1)
	put(t, n, "goes", 1)
	if err := other.Delete(t.Context(), "goes", false); err != nil {
		t.Fatal(err)
	}
	if err := natsKV(t, s).PurgeDeletes(t.Context(), jetstream.DeleteMarkersOlderThan(-1)); err != nil {
		t.Fatal(err)
	}
	created := n.mirror.createdAt()
	n.compare.Store(true)
	if err := n.ensureRestored(t.Context()); err != nil || !n.mirror.createdAt().Equal(created) {
		t.Errorf("a bucket without a purged key is taken for a damaged one: %v", err)
	}
	expectReplicas(t, n, "goes", 0)
}
