package store

import (
	"errors"
	"os"
	"testing"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/backup"
	"troupe/core/kv"
	"troupe/messages"
)

// openWithCopy opens the bucket of s as a node with a data folder does.
func openWithCopy(t *testing.T, s *Store, dir string) *Store {
	t.Helper()
	known, _, err := backup.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Open(t.Context(), s.client, Config{Folder: dir, Copy: known, Log: zerolog.New(os.Stderr)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	return other
}

func put(t *testing.T, s *Store, name string, replicas uint32) (revision uint64) {
	t.Helper()
	_, over, err := s.Get(t.Context(), name)
	if err != nil && !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	revision, err = s.Put(t.Context(), &messages.DeploymentSpec{Name: name, Replicas: new(replicas)}, over)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// expectReplicas checks the replicas of a deployment. With 0 the deployment must not exist.
func expectReplicas(t *testing.T, s *Store, name string, replicas uint32) {
	t.Helper()
	got, _, err := s.Get(t.Context(), name)
	if replicas == 0 && !errors.Is(err, ErrNotFound) || replicas > 0 && (err != nil || got.GetReplicas() != replicas) {
		t.Errorf("%s: %v, %v; want %d replicas", name, got, err, replicas)
	}
}

// TestNewerStoreOutranksCopy checks that a store with later changes outranks the copy of a node
// that was away, even if the store has purged a deletion.
func TestNewerStoreOutranksCopy(t *testing.T) {
	s, _ := open(t)
	dir := t.TempDir()
	away := openWithCopy(t, s, dir)
	put(t, away, "stays", 1)
	put(t, away, "goes", 1)
	put(t, away, "purged", 1)
	away.Close()
	if err := errors.Join(
		s.Delete(t.Context(), "goes", false), s.kv.Delete(t.Context(), deployments+"purged", 0),
	); err != nil {
		t.Fatal(err)
	}
	if err := natsKV(t, s).PurgeDeletes(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, s, "stays", 2)
	put(t, s, "new", 3)
	back := openWithCopy(t, s, dir)
	for name, replicas := range map[string]uint32{"stays": 2, "goes": 0, "purged": 0, "new": 3} {
		expectReplicas(t, back, name, replicas)
	}
	if back.Lost() {
		t.Error("a store with later changes is taken for a lost one")
	}
}

// TestCopyRestoresBucketBehindIt checks that a bucket that lost acknowledged changes is restored
// from the copy, with revisions above all earlier ones.
func TestCopyRestoresBucketBehindIt(t *testing.T) {
	s, _ := open(t)
	dir := t.TempDir()
	n := openWithCopy(t, s, dir)
	put(t, n, "a", 1)
	put(t, n, "gone", 1)
	if err := n.Delete(t.Context(), "gone", false); err != nil {
		t.Fatal(err)
	}
	n.Close()
	known, _, err := backup.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	known.Revision += 50
	known.Keys[deployments+"a"] = backup.Key{Value: []byte(`{"name":"a","replicas":4}`), Revision: known.Revision}
	if err := backup.Save(supervise.System, dir, known); err != nil {
		t.Fatal(err)
	}
	back := openWithCopy(t, s, dir)
	expectReplicas(t, back, "a", 4)
	expectReplicas(t, back, "gone", 0)
	if revision := put(t, back, "a", 5); revision <= known.Revision {
		t.Errorf("revision %d after %d", revision, known.Revision)
	}
	if len(back.pendingEvents) != 2 || back.pendingEvents[0].kind != "store.lost" ||
		back.pendingEvents[1].kind != "store.restored" {
		t.Errorf("pending events: %v", back.pendingEvents)
	}
}

// TestCopyOfAnotherCluster checks that a node that moves to another cluster does not bring its
// deployments along.
func TestCopyOfAnotherCluster(t *testing.T) {
	dir := t.TempDir()
	secret := make([]byte, kv.SecretBytes)
	for i, cluster := range []string{"first", "second"} {
		t.Run(cluster, func(t *testing.T) {
			s, _ := open(t)
			secret[0] = byte(i + 1)
			if _, err := s.CreateSecret(t.Context(), append([]byte(nil), secret...)); err != nil {
				t.Fatal(err)
			}
			n := openWithCopy(t, s, dir)
			expectReplicas(t, n, "first", 0)
			put(t, n, cluster, 1)
			if err := n.TrackTerms(t.Context(), func() uint64 { return 1 << 50 }); err != nil {
				t.Fatal(err)
			}
			if seen, _ := n.Terms(); seen != 0 {
				t.Errorf("terms of another cluster: %d", seen)
			}
		})
	}
}

// TestCopyRestoresDeletedBucket checks that a deleted bucket is restored from the copy, with the
// revisions of adapters.
func TestCopyRestoresDeletedBucket(t *testing.T) {
	s, _ := open(t)
	dir := t.TempDir()
	n := openWithCopy(t, s, dir)
	before := put(t, n, "a", 1)
	adapter, err := n.PutAdapter(t.Context(), &messages.AdapterSpec{Model: "a", Name: "l"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	n.Close()
	if err := s.client.Delete(t.Context(), Bucket); err != nil {
		t.Fatal(err)
	}
	back := openWithCopy(t, s, dir)
	expectReplicas(t, back, "a", 1)
	got, _, err := back.Adapter(t.Context(), "a", "l")
	if err != nil || got.GetRevision() != adapter.GetRevision() {
		t.Errorf("%v, %v; want revision %d", got, err, adapter.GetRevision())
	}
	if revision := put(t, back, "a", 1); revision <= before {
		t.Errorf("revision %d after %d", revision, before)
	}
}
