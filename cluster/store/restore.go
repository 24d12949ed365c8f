package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/cluster/bucket"
	"troupe/messages"
)

const (
	checkInterval = time.Second
	checkTimeout  = 5 * time.Second
	// compareChecks and compareInterval are how often, and how far apart, a bucket must be found to have lost
	// something; reconcileTimeout bounds all of it.
	compareChecks    = 2
	compareInterval  = 200 * time.Millisecond
	reconcileTimeout = time.Minute
	// restoredFrom is a header with the revision that a restored key had before. Of several, the
	// highest counts; a key without it was written after the bucket was made again, and is newer
	// than all.
	restoredFrom = "Troupe-Restored-From"
	maxConflicts = 10 // of nodes that restore the same key at once
)

// Run checks the bucket until ctx ends. Where it was deleted, it is made again, and every key is
// restored that this node knows. tell is called for the loss and for the end of the restoration:
// "store.lost" and "store.restored".
func (s *Store) Run(ctx context.Context, tell func(kind, detail string)) {
	ticks := time.NewTicker(checkInterval)
	defer ticks.Stop()
	s.mu.Lock()
	s.onEvent.Store(&tell)
	untold := s.pendingEvents
	s.pendingEvents = nil
	s.mu.Unlock()
	for _, e := range untold {
		tell(e.kind, e.detail)
	}
	var copying sync.WaitGroup
	defer copying.Wait()
	copying.Go(func() { s.watchForCopy(ctx) })
	for {
		s.local.raiseTermLimit()
		if err := s.ensureRestored(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug().Err(err).Msg("store not checked")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// Lost reports whether the bucket is gone, or not restored yet.
func (s *Store) Lost() bool { return s.lost.Load() }

// whole returns once the bucket has all that this node knows: no watch may begin before, since it
// would tell that what is missing was deleted. Several nodes may restore at once: each key is
// written by compare-and-set.
func (s *Store) ensureRestored(ctx context.Context) error {
	s.restoring.Lock()
	defer s.restoring.Unlock()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	before := s.mirror.lastRevision()
	stream, err := s.js.Stream(ctx, bucket.Stream(Bucket))
	if err == nil && stream.CachedInfo().Created.Equal(s.mirror.createdAt()) && stream.CachedInfo().State.LastSeq < before {
		if err = s.recreateRolledBack(ctx, stream, before); err == nil {
			stream, err = s.js.Stream(ctx, bucket.Stream(Bucket))
		}
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s.reportState(true, "the bucket "+Bucket+" was deleted; it is restored from what this node knows")
		stream, err = s.open(ctx)
	}
	if err != nil {
		return s.logFailure(err)
	}
	info := stream.CachedInfo()
	if info.Created.Equal(s.mirror.createdAt()) {
		s.mirror.advance(info.State.LastSeq)
		s.reportState(false, "")
		return nil
	}
	s.reportState(true, "the bucket "+Bucket+" was made again; what it lacks is restored from what this node knows")
	written := 0
	for key, h := range s.mirror.snapshot() {
		wrote, err := s.restore(ctx, stream, key, h)
		if err != nil {
			return s.logFailure(fmt.Errorf("restore key %s: %w", key, err))
		}
		if wrote {
			written++
		}
	}
	s.mirror.advance(info.State.LastSeq)
	s.mirror.setCreated(info.Created)
	s.reportState(false, fmt.Sprintf("%d keys were written again by this node", written))
	s.restartWatches()
	return nil
}

// restore writes a key that the bucket lacks, or has from a node that knew an older revision.
func (s *Store) restore(ctx context.Context, stream jetstream.Stream, key string, h entry) (wrote bool, err error) {
	subject := bucket.Subject(Bucket, key)
	for range maxConflicts {
		var over uint64
		now, err := stream.GetLastMsgForSubject(ctx, subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case err != nil:
			return false, err
		default:
			from, err := strconv.ParseUint(now.Header.Get(restoredFrom), 10, 64)
			if over = now.Sequence; err != nil || from >= h.revision {
				s.mirror.replace(key, entry{value: now.Data, revision: now.Sequence, deleted: now.Header.Get(operationHeader) != ""})
				return false, nil
			}
		}
		msg := &nats.Msg{Subject: subject, Header: nats.Header{restoredFrom: {strconv.FormatUint(h.revision, 10)}}}
		if h.deleted {
			msg.Header.Set(operationHeader, operationDelete)
		} else if msg.Data, err = restoredValue(key, h); err != nil {
			s.log.Error().Err(err).Msg("stored value not restored")
			return false, nil
		}
		ack, err := s.js.PublishMsg(ctx, msg,
			jetstream.WithExpectLastSequencePerSubject(over), jetstream.WithRetryAttempts(0))
		if err == nil {
			s.mirror.replace(key, entry{value: msg.Data, revision: ack.Sequence, deleted: h.deleted})
			return true, nil
		}
		if !isConflict(err) {
			return false, err
		}
	}
	return false, errors.New("other nodes write it all the time")
}

// restoredValue returns the value of a key in a bucket with other revisions. An adapter keeps the
// revision that it was registered with, since KV blocks are known by it.
func restoredValue(key string, h entry) ([]byte, error) {
	if !strings.HasPrefix(key, adapters) {
		return h.value, nil
	}
	spec := &messages.AdapterSpec{}
	if err := unmarshal(h.value, spec); err != nil {
		return nil, fmt.Errorf("key %s: %w", key, err)
	}
	return encode(withRevision(spec, h.revision))
}

func isConflict(err error) bool {
	api := (*jetstream.APIError)(nil)
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// say tells that the bucket is lost, or whole again, where that is new.
func (s *Store) reportState(lost bool, detail string) {
	if s.lost.Swap(lost) == lost {
		return
	}
	kind := "store.restored"
	if lost {
		kind = "store.lost"
		s.log.Error().Msg(detail)
	} else {
		s.log.Info().Msg("store restored; " + detail)
	}
	s.mu.Lock()
	tell := s.onEvent.Load()
	if tell == nil {
		s.pendingEvents = append(s.pendingEvents, event{kind, detail})
	}
	s.mu.Unlock()
	if tell != nil {
		(*tell)(kind, detail)
	}
}

// logFailure logs why the bucket cannot be restored, once for each reason.
func (s *Store) logFailure(err error) error {
	if text := err.Error(); s.lost.Load() && text != s.lastFailure {
		s.lastFailure = text
		s.log.Error().Err(err).Msg("store not restored yet; this node goes on trying")
	}
	return err
}

// wake makes all watches begin again.
func (s *Store) restartWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.rewatch)
	s.rewatch = make(chan struct{})
}

func (s *Store) watchRestart() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rewatch
}
