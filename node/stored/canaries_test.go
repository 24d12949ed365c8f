package stored

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/store"
	"troupe/core/verify"
	"troupe/engine/residency"
	"troupe/messages"
)

// canaryStore is the part of a store that holds records, shared by two nodes.
type canaryStore struct {
	mu      sync.Mutex
	away    bool // no write succeeds
	all     map[string]*messages.CanaryRecord
	watches []func(store.CanaryChange)
	creates atomic.Int32
}

func (s *canaryStore) CreateCanary(_ context.Context, name string, r *messages.CanaryRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.creates.Add(1)
	switch {
	case s.away:
		return errors.New("no quorum")
	case s.all[name] != nil:
		return fmt.Errorf("%s: %w", name, store.ErrConflict)
	}
	s.put(name, r)
	return nil
}

func (s *canaryStore) ReplaceCanary(_ context.Context, name string, r *messages.CanaryRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(name, r)
	return nil
}

func (s *canaryStore) put(name string, r *messages.CanaryRecord) {
	s.all[name] = r
	s.tell(store.CanaryChange{Name: name, Record: r})
}

// tell tells the watches of a change, each in a goroutine of its own, as a server does. The lock is held.
func (s *canaryStore) tell(c store.CanaryChange) {
	for _, apply := range s.watches {
		go apply(c)
	}
}

func (s *canaryStore) WatchCanaries(ctx context.Context, apply func(store.CanaryChange)) error {
	s.mu.Lock()
	s.watches = append(s.watches, apply)
	for name, r := range s.all {
		go apply(store.CanaryChange{Name: name, Record: r})
	}
	s.mu.Unlock()
	apply(store.CanaryChange{Synced: true})
	<-ctx.Done()
	return ctx.Err()
}

// canaryNode is a node that records canaries.
type canaryNode struct {
	records *residency.Canaries
	events  []string
}

func (s *canaryStore) follow(t *testing.T, name string) *canaryNode {
	n := &canaryNode{records: residency.NewCanaries(residency.CanaryConfig{Node: name, Now: time.Now})}
	c := &Canaries{Records: n.records, Store: s, Runtime: supervise.System, Log: zerolog.Nop(),
		Publish: func(kind, _, detail string) { n.events = append(n.events, kind+" "+detail) }}
	f := NewFollowers(supervise.System, zerolog.Nop())
	if err := f.Follow(t.Context(), c.Watch()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Stop)
	return n
}

func record(by string, tokens ...uint32) verify.Record {
	return verify.Record{Key: verify.Key{Revision: "r"}, Prompt: []uint32{1}, Tokens: tokens, By: by}
}

func (n *canaryNode) recorded(r verify.Record) {
	n.records.Follow(func(all *verify.Records) []verify.Effect { return all.Recorded(r.Key.Name(), r) })
}

func (n *canaryNode) tokens() []uint32 {
	synctest.Wait()
	found, _ := n.records.Find(verify.Key{Revision: "r"})
	return found.Tokens
}

// TestNodesAgreeOnRecords checks that the first record that is stored counts on both nodes, that one which
// could not be stored is stored later, that an unreadable one is replaced, and that a deleted one is forgotten.
func TestNodesAgreeOnRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &canaryStore{all: make(map[string]*messages.CanaryRecord), away: true}
		a, b := s.follow(t, "a"), s.follow(t, "b")
		a.recorded(record("a", 7, 8))
		if !slices.Equal(a.tokens(), []uint32{7, 8}) || b.tokens() != nil || s.creates.Load() != 1 {
			t.Fatalf("%v, %v, %d writes", a.tokens(), b.tokens(), s.creates.Load())
		}
		time.Sleep(canaryRetry + time.Second)
		synctest.Wait()
		if s.creates.Load() != 2 {
			t.Errorf("%d writes after a retry", s.creates.Load())
		}
		s.mu.Lock()
		s.away = false
		s.mu.Unlock()
		b.recorded(record("b", 7, 9))
		synctest.Wait()
		time.Sleep(2 * canaryRetry)
		synctest.Wait()
		if !slices.Equal(a.tokens(), []uint32{7, 9}) || !slices.Equal(b.tokens(), []uint32{7, 9}) {
			t.Errorf("%v and %v", a.tokens(), b.tokens())
		}
		want := "weights.disagree a: tokens [7 8], and stored, by b: [7 9]; the stored ones count"
		if !slices.Equal(a.events, []string{want}) || len(b.events) != 0 {
			t.Errorf("%q, %q", a.events, b.events)
		}
		name := verify.Key{Revision: "r"}.Name()
		for what, r := range map[string]*messages.CanaryRecord{
			"no tokens":           {RevisionDigest: "r"},
			"that of other files": {RevisionDigest: "other", Prompt: []uint32{1}, Tokens: []uint32{3}},
		} {
			s.mu.Lock()
			s.put(name, r)
			s.mu.Unlock()
			if synctest.Wait(); !slices.Equal(s.all[name].GetTokens(), []uint32{7, 9}) || len(a.events) != 1 {
				t.Errorf("%s: %v, %v", what, s.all[name], a.events)
			}
		}
		s.mu.Lock()
		delete(s.all, name)
		s.tell(store.CanaryChange{Name: name})
		s.mu.Unlock()
		if a.tokens() != nil || b.tokens() != nil {
			t.Errorf("after a deletion: %v and %v", a.tokens(), b.tokens())
		}
		b.recorded(record("b", 1, 2))
		if !slices.Equal(a.tokens(), []uint32{1, 2}) {
			t.Errorf("recorded again: %v", a.tokens())
		}
	})
}
