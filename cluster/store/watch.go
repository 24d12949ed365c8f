package store

import (
	"cmp"
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// watch gives the last value of every key with a prefix, then nil, then each change, until ctx ends or the store is lost.
// After a reconnect it begins again: the server has forgotten who watches.
func (s *Store) watch(ctx context.Context, prefix string, entry func(jetstream.KeyValueEntry)) error {
	connected := s.conn.StatusChanged(nats.CONNECTED)
	defer s.conn.RemoveStatusListener(connected)
	for {
		w, err := s.kv.Watch(ctx, prefix+">")
		if err != nil {
			return err
		}
		err = follow(ctx, w, connected, entry)
		_ = w.Stop() // a watch of a lost connection is gone already
		if err != nil {
			return err
		}
		s.log.Debug().Str("prefix", prefix).Msg("watching the desired state again")
	}
}

// follow returns nil when the watch should begin again.
func follow(ctx context.Context, w jetstream.KeyWatcher, again <-chan nats.Status, entry func(jetstream.KeyValueEntry)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again:
			return nil
		case e, ok := <-w.Updates():
			if !ok {
				return cmp.Or(ctx.Err(), errors.New("the watch has ended"))
			}
			entry(e)
		}
	}
}
