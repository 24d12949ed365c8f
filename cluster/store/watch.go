package store

import (
	"cmp"
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/cluster/bucket"
)

// watch calls apply with the last value of every key with a prefix, then with nil, then with each
// change. It returns when ctx ends or the store is lost. It starts over after a reconnect, since
// the server has dropped the consumer.
func (s *Store) watch(ctx context.Context, prefix string, apply func(jetstream.KeyValueEntry)) error {
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
		err = s.consume(ctx, w, prefix, at, connected, again, apply)
		_ = w.Stop() // a lost connection has ended it
		if err != nil {
			return err
		}
		s.log.Debug().Str("prefix", prefix).Msg("restarting watch of the desired state")
	}
}

// watchForCopy watches all keys for the copy in the data folder, until ctx ends.
func (s *Store) watchForCopy(ctx context.Context) {
	for s.local.saver != nil && ctx.Err() == nil {
		err := s.watch(ctx, "", func(jetstream.KeyValueEntry) {})
		select {
		case <-ctx.Done():
		case <-s.rt.After(checkInterval):
			s.log.Warn().Err(err).Msg("store watch for the local copy ended; restarting")
		}
	}
}

// consume applies the updates of a watch that began at revision at. It returns nil if the watch
// must start over.
func (s *Store) consume(
	ctx context.Context, w jetstream.KeyWatcher, prefix string, at uint64, connected <-chan nats.Status,
	again <-chan struct{}, apply func(jetstream.KeyValueEntry),
) error {
	listed := map[string]bool{} // nil after the stored keys were listed
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
				return cmp.Or(ctx.Err(), errors.New("watch ended"))
			}
			if e == nil && !s.sameBucket(ctx) || e != nil && !s.mirror.apply(e) {
				return nil // the bucket was recreated since the watch began
			}
			if e == nil {
				if err := s.confirmUnlisted(ctx, prefix, listed, at, apply); err != nil {
					return err
				}
				listed = nil
			} else if listed != nil {
				listed[e.Key()] = true
			}
			apply(e)
		}
	}
}

// confirmUnlisted handles the known keys that a listing lacks. Either they were deleted, or the server
// that sent the listing is behind the leader: the leader is asked, and apply called for keys that it
// has.
func (s *Store) confirmUnlisted(
	ctx context.Context, prefix string, listed map[string]bool, at uint64, apply func(jetstream.KeyValueEntry),
) error {
	for _, key := range s.mirror.unlisted(prefix, listed, at) {
		e, err := s.kv.Get(ctx, key)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
			s.mirror.markDeleted(key, at)
		case err != nil:
			return err
		case !s.mirror.apply(e):
			return errors.New("the bucket was recreated during a listing")
		default:
			apply(e)
		}
	}
	return nil
}

// sameBucket reports whether the bucket is still the one that has all keys of the mirror.
func (s *Store) sameBucket(ctx context.Context) bool {
	ctx, cancel := s.rt.WithTimeout(ctx, checkTimeout)
	defer cancel()
	stream, err := s.js.Stream(ctx, bucket.Stream(Bucket))
	return err == nil && stream.CachedInfo().Created.Equal(s.mirror.createdAt())
}
