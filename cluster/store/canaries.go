package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/core/verify"
	"troupe/messages"
)

// CanaryChange is a change that WatchCanaries delivers.
type CanaryChange struct {
	Name   string
	Record *messages.CanaryRecord // nil if it was deleted, or cannot be read
	Err    error                  // why it cannot be read
	// Synced: see NodeChange.
	Synced bool
}

// CreateCanary stores the record of a canary. If one is stored under its name, it returns ErrConflict.
func (s *Store) CreateCanary(ctx context.Context, name string, r *messages.CanaryRecord) error {
	b, err := encode(r)
	if err != nil {
		return err
	}
	now, err := s.kv.Create(ctx, name, b)
	if err = s.syncPut(ctx, name, b, now, err); errors.Is(err, jetstream.ErrKeyExists) {
		err = ErrConflict
	}
	if err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	return nil
}

// ReplaceCanary stores the record of a canary in the place of one that cannot be read.
func (s *Store) ReplaceCanary(ctx context.Context, name string, r *messages.CanaryRecord) error {
	return s.put(ctx, name, r)
}

// WatchCanaries calls apply with every record of a canary, then with Synced, then with each change. It
// returns when ctx ends or the store is lost.
func (s *Store) WatchCanaries(ctx context.Context, apply func(CanaryChange)) error {
	return s.watch(ctx, verify.Prefix, func(e jetstream.KeyValueEntry) {
		if e == nil {
			apply(CanaryChange{Synced: true})
			return
		}
		change := CanaryChange{Name: e.Key()}
		if e.Operation() == jetstream.KeyValuePut {
			r := &messages.CanaryRecord{}
			if change.Err = decodeEntry(e, r); change.Err == nil {
				change.Record = r
			}
		}
		apply(change)
	})
}
