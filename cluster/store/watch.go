package store

import (
	"cmp"
	"context"
	"errors"
	"time"

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
		again := s.watchRestart()
		if err := s.ensureRestored(ctx); err != nil {
			return err
		}
		at := s.mirror.lastRevision()
		w, err := s.kv.Watch(ctx, prefix+">")
		if err != nil {
			return err
		}
		err = s.consume(ctx, w, prefix, at, connected, again, entry)
		_ = w.Stop() // a watch of a lost connection is gone already
		if err != nil {
			return err
		}
		s.log.Debug().Str("prefix", prefix).Msg("watching the desired state again")
	}
}

// watchForCopy has the copy in the data folder follow all keys, until ctx ends.
func (s *Store) watchForCopy(ctx context.Context) {
	for s.local.saver != nil && ctx.Err() == nil {
		err := s.watch(ctx, "", func(jetstream.KeyValueEntry) {})
		select {
		case <-ctx.Done():
		case <-time.After(checkInterval):
			s.log.Warn().Err(err).Msg("store lost, following it again for its copy")
		}
	}
}

// follow returns nil when the watch should begin again.
func (s *Store) consume(
	ctx context.Context, w jetstream.KeyWatcher, prefix string, at uint64, connected <-chan nats.Status, again <-chan struct{},
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
			if e == nil && !s.sameBucket(ctx) || e != nil && !s.mirror.apply(e) {
				return nil // the bucket was deleted since the watch began
			}
			if e == nil {
				s.mirror.deleteUnlisted(prefix, listed, at)
				listed = nil
			} else if listed != nil {
				listed[e.Key()] = true
			}
			entry(e)
		}
	}
}

// sameBucket reports whether the bucket is still the one that has all that this node knows.
func (s *Store) sameBucket(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	stream, err := s.js.Stream(ctx, bucket.Stream(Bucket))
	return err == nil && stream.CachedInfo().Created.Equal(s.mirror.createdAt())
}
