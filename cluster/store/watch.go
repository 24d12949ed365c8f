package store

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// errReconnected: the server has forgotten who watches. What is told from the beginning is told to a new watch, which knows that it begins.
var errReconnected = errors.New("the connection was lost and is there again")

// watch gives the last value of every key with a prefix, then nil, then each change, until ctx ends or the store is lost.
func (s *Store) watch(ctx context.Context, prefix string, entry func(jetstream.KeyValueEntry)) error {
	connected := s.conn.StatusChanged(nats.CONNECTED)
	defer s.conn.RemoveStatusListener(connected)
	w, err := s.kv.Watch(ctx, prefix+">")
	if err != nil {
		return err
	}
	defer func() { _ = w.Stop() }() // a watch of a lost connection is gone already
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-connected:
			return errReconnected
		case e, ok := <-w.Updates():
			if !ok {
				return errors.New("the watch has ended")
			}
			entry(e)
		}
	}
}
