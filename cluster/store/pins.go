package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/messages"
)

// PinChange is a change that WatchPins delivers.
type PinChange struct {
	Name string
	Pin  *messages.PinnedPrefix // nil if the pin was deleted
	// Synced: see NodeChange.
	Synced bool
}

// PutPin stores a pinned prefix.
func (s *Store) PutPin(ctx context.Context, pin *messages.PinnedPrefix) error {
	return s.put(ctx, pins+pin.GetName(), pin)
}

// DeletePin removes a pinned prefix, or returns ErrNotFound.
func (s *Store) DeletePin(ctx context.Context, name string) error {
	e, err := s.kv.Get(ctx, pins+name)
	if isMissing(err) {
		return fmt.Errorf("pin %s: %w", name, ErrNotFound)
	}
	if err == nil {
		err = s.syncDelete(ctx, pins+name, e.Revision(), s.kv.Delete(ctx, pins+name, 0))
	}
	if err != nil {
		return fmt.Errorf("pin %s: %w", name, err)
	}
	return nil
}

// WatchPins calls apply with every pinned prefix, then with Synced, then with each change. It
// returns when ctx ends or the store is lost.
func (s *Store) WatchPins(ctx context.Context, apply func(PinChange)) error {
	return s.watch(ctx, pins, func(e jetstream.KeyValueEntry) {
		if e == nil {
			apply(PinChange{Synced: true})
			return
		}
		change := PinChange{Name: strings.TrimPrefix(e.Key(), pins)}
		if e.Operation() == jetstream.KeyValuePut {
			change.Pin = &messages.PinnedPrefix{}
			if err := decodeEntry(e, change.Pin); err != nil {
				s.log.Error().Err(err).Msg("stored pin skipped")
				return
			}
		}
		apply(change)
	})
}
