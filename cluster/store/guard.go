package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/cluster/bucket"
	"troupe/messages"
)

// readTimeout bounds the read of a key, if the caller's context allows more.
const readTimeout = 3 * time.Second

// readAgainAfter is the pause between two reads of a key if the first one returned an old revision.
const readAgainAfter = 20 * time.Millisecond

// Failure is a store error with a machine-readable reason.
type Failure struct {
	*messages.Refused
	err error
}

func (f Failure) Error() string { return f.GetDetail() }

func (f Failure) Unwrap() error { return f.err }

func newFailure(reason messages.Reason, err error, format string, args ...any) error {
	return Failure{&messages.Refused{Reason: reason, Detail: fmt.Sprintf(format, args...)}, err}
}

// SetPrecheck sets a function that is called before each read or write of a key. If it returns an
// error, the operation returns that error and sends nothing. Without a precheck, servers without a
// majority could apply a request after they regain one.
func (s *Store) SetPrecheck(problem func() error) { s.precheck.Store(&problem) }

// guarded is a bucket that calls the precheck first. Its errors state whether a change was made.
type guarded struct {
	bucket.KeyValue
	store *Store
}

func (g guarded) problem() error {
	if check := g.store.precheck.Load(); check != nil {
		return (*check)()
	}
	return nil
}

// Get implements bucket.KeyValue.
func (g guarded) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if err := g.problem(); err != nil {
		return nil, err
	}
	ctx, cancel := g.store.rt.WithTimeout(ctx, readTimeout)
	defer cancel()
	e, err := g.KeyValue.Get(ctx, key)
	return e, readError(key, err)
}

// Put implements bucket.KeyValue.
func (g guarded) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return g.write(ctx, key, func() (uint64, error) { return g.KeyValue.Put(ctx, key, value) })
}

// Create implements bucket.KeyValue.
func (g guarded) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return g.write(ctx, key, func() (uint64, error) { return g.KeyValue.Create(ctx, key, value) })
}

// Update implements bucket.KeyValue.
func (g guarded) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return g.write(ctx, key, func() (uint64, error) { return g.KeyValue.Update(ctx, key, value, revision) })
}

// Delete implements bucket.KeyValue.
func (g guarded) Delete(ctx context.Context, key string, revision uint64) error {
	_, err := g.write(ctx, key, func() (uint64, error) {
		if err := g.KeyValue.Delete(ctx, key, revision); err != nil {
			return 0, err
		}
		info, err := g.store.client.Info(ctx, Bucket)
		if err != nil { // the key is deleted
			return math.MaxUint64, nil
		}
		return info.State.LastSeq, nil
	})
	return err
}

// mark deletes a key at a revision, and gives the marker of the deletion a value.
func (g guarded) mark(ctx context.Context, key string, over uint64, value string) error {
	_, err := g.write(ctx, key, func() (uint64, error) {
		return g.store.client.Write(ctx, Bucket, key, bucket.Value{
			Header: nats.Header{operationHeader: {operationDelete}}, Data: []byte(value)}, over)
	})
	return err
}

// write makes a change, which returns its revision or a later one.
func (g guarded) write(ctx context.Context, key string, do func() (uint64, error)) (uint64, error) {
	if err := g.problem(); err != nil {
		return 0, err
	}
	if !g.store.client.Connected() { // nats.go would buffer the request and send it later
		return 0, newFailure(messages.Reason_REASON_NO_QUORUM, nats.ErrDisconnected,
			"this node is not connected to NATS; nothing was changed; retry when it is connected")
	}
	before := g.store.mirror.lastRevision()
	revision, err := do()
	if err == nil && revision <= before && g.store.replicas <= 1 {
		return 0, g.store.rolledBack(ctx, key)
	}
	return revision, writeError(key, err)
}

// rolledBack restores a bucket that gave a change of a key a revision that another change had before.
// It has lost its last revisions, one of which may replace the change now.
func (s *Store) rolledBack(ctx context.Context, key string) error {
	return newFailure(messages.Reason_REASON_OUTCOME_UNKNOWN, s.ensureRestored(ctx),
		"outcome unknown: the store has lost its last changes, and key %s was changed before they were restored; "+
			"read it again", key)
}

// readError adds a reason to the error of a read that was not answered.
func readError(key string, err error) error {
	if !unanswered(err) && !undelivered(err) || errors.Is(err, context.Canceled) {
		return err
	}
	return newFailure(messages.Reason_REASON_NO_QUORUM, err,
		"the store does not answer: key %s: %v; nothing was changed", key, err)
}

// writeError adds a reason to the error of a write: either no server received it, or a server did
// and has not confirmed it.
func writeError(key string, err error) error {
	switch {
	case undelivered(err):
		return newFailure(messages.Reason_REASON_NO_QUORUM, err,
			"the store has no leader: key %s: %v; nothing was changed", key, err)
	case unanswered(err):
		return newFailure(messages.Reason_REASON_OUTCOME_UNKNOWN, err,
			"outcome unknown: the store has not confirmed the change of key %s (%v) and may apply it later", key, err)
	}
	return err
}

// undelivered reports whether no server received a message.
func undelivered(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders)
}

// unanswered reports whether a server may have received a message but did not answer.
func unanswered(err error) bool {
	for _, one := range []error{
		context.DeadlineExceeded, context.Canceled, nats.ErrTimeout, nats.ErrDisconnected, nats.ErrConnectionClosed,
		nats.ErrConnectionReconnecting, nats.ErrConnectionDraining,
	} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}
