package store

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// watch is a watch of the keys with a prefix.
type watch struct {
	prefix string
	apply  func(jetstream.KeyValueEntry)
	again  chan struct{} // has a capacity of one; signals that the watch must start over
}

// startOver makes the watch start over.
func (w *watch) startOver() {
	select {
	case w.again <- struct{}{}:
	default:
	}
}

// startingOver reports whether the watch must start over.
func (w *watch) startingOver() bool {
	select {
	case <-w.again:
		return true
	default:
		return false
	}
}

// watch calls apply with the last value of every key with a prefix, then with nil, then with each
// change. It returns when ctx ends or the store is lost. It starts over after a reconnect, since
// the server has dropped the consumer.
func (s *Store) watch(ctx context.Context, prefix string, apply func(jetstream.KeyValueEntry)) error {
	w := &watch{prefix: prefix, apply: apply, again: make(chan struct{}, 1)}
	defer s.client.OnConnected(func() {
		s.compare.Store(true)
		w.startOver()
	})()
	s.addWatch(w)
	defer s.removeWatch(w)
	for {
		w.startingOver() // what made it start over so far is past
		if err := s.ensureRestored(ctx); err != nil {
			return err
		}
		at := s.mirror.lastRevision()
		updates, err := s.kv.Watch(ctx, prefix+">")
		if err != nil {
			return err
		}
		err = s.consume(ctx, w, updates, at)
		_ = updates.Stop() // a lost connection has ended it
		if err != nil {
			return err
		}
		s.log.Debug().Str("prefix", prefix).Msg("restarting watch of the desired state")
	}
}

func (s *Store) addWatch(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches = append(s.watches, w)
}

func (s *Store) removeWatch(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches = slices.DeleteFunc(s.watches, func(other *watch) bool { return other == w })
}

// restartWatches makes every watch start over, each in its own time.
func (s *Store) restartWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		s.rt.Go(w.startOver)
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
func (s *Store) consume(ctx context.Context, w *watch, updates jetstream.KeyWatcher, at uint64) error {
	listed := map[string]bool{} // nil after the stored keys were listed
	for {
		if ctx.Err() != nil || w.startingOver() { // before any update that has arrived too
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.again:
			return nil
		case e, ok := <-updates.Updates():
			if !ok {
				return cmp.Or(ctx.Err(), errors.New("watch ended"))
			}
			if e == nil && !s.sameBucket(ctx) || e != nil && !s.mirror.apply(e) {
				return nil // the bucket was recreated since the watch began
			}
			if e == nil {
				if err := s.confirmUnlisted(ctx, w, listed, at); err != nil {
					return err
				}
				listed = nil
			} else if listed != nil {
				listed[e.Key()] = true
			}
			w.apply(e)
		}
	}
}

// confirmUnlisted handles the known keys that a listing lacks. Either they were deleted, or the server
// that sent the listing is behind the leader: the leader is asked, and apply called for keys that it
// has.
func (s *Store) confirmUnlisted(ctx context.Context, w *watch, listed map[string]bool, at uint64) error {
	for _, key := range s.mirror.unlisted(w.prefix, listed, at) {
		e, err := s.kv.Get(ctx, key)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
			s.mirror.markDeleted(key, at)
		case err != nil:
			return err
		case !s.mirror.apply(e):
			return errors.New("the bucket was recreated during a listing")
		default:
			w.apply(e)
		}
	}
	return nil
}

// sameBucket reports whether the bucket is still the one that has all keys of the mirror.
func (s *Store) sameBucket(ctx context.Context) bool {
	ctx, cancel := s.rt.WithTimeout(ctx, checkTimeout)
	defer cancel()
	info, err := s.client.Info(ctx, Bucket)
	return err == nil && info.Created.Equal(s.mirror.createdAt())
}
