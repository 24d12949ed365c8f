package stored

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/store"
	"troupe/messages"
)

// secretStore is a store with only a secret.
type secretStore struct {
	mu      sync.Mutex
	value   []byte
	failing int // number of CreateSecret calls that fail
	deleted chan struct{}
}

func (s *secretStore) CreateSecret(_ context.Context, secret []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing--; s.failing >= 0 {
		return nil, store.ErrNotFound
	}
	if s.value == nil {
		s.value = secret
	}
	return s.value, nil
}

func (s *secretStore) WatchSecret(ctx context.Context, apply func(store.SecretChange)) error {
	apply(store.SecretChange{Secret: s.value})
	apply(store.SecretChange{Synced: true})
	select {
	case <-ctx.Done():
	case <-s.deleted:
		s.mu.Lock()
		s.value = nil
		s.mu.Unlock()
		apply(store.SecretChange{})
		<-ctx.Done()
	}
	return ctx.Err()
}

// TestSecret checks that nodes share the secret in the store, that the copy in the data folder
// survives the loss of the store, and that a deleted secret is stored again.
func TestSecret(t *testing.T) {
	dir := t.TempDir()
	open := func(from *secretStore, dir string) *Secret {
		t.Helper()
		s, err := OpenSecret(t.Context(), from, dir, supervise.System, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	shared := &secretStore{deleted: make(chan struct{})}
	first := open(shared, dir)
	secret, version := first.Get()
	if other, _ := open(shared, t.TempDir()).Get(); string(other) != string(secret) || version != 1 {
		t.Error("two nodes have two secrets")
	}
	if again, _ := open(&secretStore{}, dir).Get(); string(again) != string(secret) {
		t.Error("the secret of the data folder is not used")
	}
	f := NewFollowers(supervise.System, zerolog.Nop())
	if err := f.Follow(t.Context(), first.Watch()); err != nil {
		t.Fatal(err)
	}
	shared.deleted <- struct{}{}
	for end := time.Now().Add(10 * time.Second); ; <-time.After(time.Millisecond) {
		shared.mu.Lock()
		restored := string(shared.value) == string(secret)
		shared.mu.Unlock()
		if restored {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the deleted secret is not stored again")
		}
	}
	f.Stop()
	if a, err := first.Salt("t", ""); err != nil || len(a) == 0 {
		t.Errorf("salt: %v", err)
	}
}

// TestSecretWaits checks that the start waits for a store that has no leader yet, but not forever.
func TestSecretWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := OpenSecret(t.Context(), &secretStore{failing: 3}, "", supervise.System, zerolog.Nop())
		if err != nil || time.Since(began) != 3*secretRetry {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		began = time.Now()
		_, err = OpenSecret(t.Context(), &secretStore{failing: 1000}, "", supervise.System, zerolog.Nop())
		if !errors.Is(err, store.ErrNotFound) || time.Since(began) != secretTimeout {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// changes is a store that reports changes.
type changes struct {
	nodes []store.NodeChange
	pins  []store.PinChange
}

func (c changes) WatchNodes(ctx context.Context, apply func(store.NodeChange)) error {
	for _, n := range c.nodes {
		apply(n)
	}
	<-ctx.Done()
	return nil
}

func (c changes) WatchPins(ctx context.Context, apply func(store.PinChange)) error {
	for _, p := range c.pins {
		apply(p)
	}
	<-ctx.Done()
	return nil
}

// TestDrainedAndPins checks that the sets are updated with the store.
func TestDrainedAndPins(t *testing.T) {
	pin := func(name, model string) store.PinChange {
		return store.PinChange{Name: name, Pin: &messages.PinnedPrefix{Name: name, Model: model}}
	}
	drain := func(name string) store.NodeChange {
		return store.NodeChange{Name: name, Spec: &messages.NodeSpec{Draining: true}}
	}
	from := changes{
		nodes: []store.NodeChange{
			drain("b"), drain("a"), drain("c"), {Name: "c"}, {Synced: true},
		},
		pins: []store.PinChange{
			pin("b", "m"), pin("a", "m"), pin("c", "n"), pin("d", "m"), {Name: "d"}, {Synced: true},
		},
	}
	var drained Drained
	var pins Pins
	changed := 0
	f := NewFollowers(supervise.System, zerolog.Nop())
	defer f.Stop()
	if err := f.Follow(t.Context(), drained.Watch(from, func() { changed++ }), pins.Watch(from)); err != nil {
		t.Fatal(err)
	}
	names := drained.Names()
	if len(names) != 2 || names[0] != "a" || !drained.Has("b") || drained.Has("c") || changed != 4 {
		t.Errorf("%v drained after %d changes", names, changed)
	}
	version, of := pins.Of("m")
	if _, all := pins.Of(""); len(all) != 3 || len(of) != 2 || of[0].GetName() != "a" || version != 5 {
		t.Errorf("version %d: %v of %v", version, of, all)
	}
}
