package store

import (
	"cmp"
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/cluster/bucket"
)

// watch gives the last value of every key with a prefix, then nil, then each change, until ctx ends
// or the store is lost. After a reconnect it begins again: the server has forgotten who watches.
func (s *Store) watch(ctx context.Context, prefix string, entry func(jetstream.KeyValueEntry)) error {
	connected := s.conn.StatusChanged(nats.CONNECTED)
	defer s.conn.RemoveStatusListener(connected)
	for {
		again := s.awaken()
		if err := s.whole(ctx); err != nil {
			return err
		}
		w, err := s.kv.Watch(ctx, prefix+">")
		if err != nil {
			return err
		}
		err = s.follow(ctx, w, prefix, connected, again, entry)
		_ = w.Stop() // a watch of a lost connection is gone already
		if err != nil {
			return err
		}
		s.log.Debug().Str("prefix", prefix).Msg("watching the desired state again")
	}
}

// follow returns nil when the watch should begin again.
func (s *Store) follow(
	ctx context.Context, w jetstream.KeyWatcher, prefix string, connected <-chan nats.Status, again <-chan struct{},
	entry func(jetstream.KeyValueEntry),
) error {
	listed := map[string]bool{} // nil once all that is stored was told
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-connected:
			return nil
		case <-again:
			return nil
		case e, ok := <-w.Updates():
			if !ok {
				return cmp.Or(ctx.Err(), errors.New("the watch has ended"))
			}
			if e == nil && !s.unchanged(ctx) || e != nil && !s.seen.take(e) {
				return nil // the bucket was deleted since the watch began
			}
			if e == nil {
				s.seen.retain(prefix, listed)
				listed = nil
			} else if listed != nil {
				listed[e.Key()] = true
			}
			entry(e)
		}
	}
}

// unchanged reports whether the bucket is still the one that has all that this node knows.
func (s *Store) unchanged(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	stream, err := s.js.Stream(ctx, bucket.Stream(Bucket))
	s.restoring.Lock()
	defer s.restoring.Unlock()
	return err == nil && stream.CachedInfo().Created.Equal(s.created)
}
