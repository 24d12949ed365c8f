package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/actors/supervise"
	"troupe/cluster/bucket"
	"troupe/messages"
)

const (
	checkInterval = time.Second
	checkTimeout  = 5 * time.Second
	// A loss must be seen in compareChecks further comparisons, compareInterval apart. All of them
	// must end within reconcileTimeout.
	compareChecks    = 2
	compareInterval  = 200 * time.Millisecond
	reconcileTimeout = time.Minute
	// restoredFrom is a header with the revision that a restored key had before. If several nodes
	// restore a key, the highest revision wins. A key without the header was written after the
	// bucket was recreated, and is newer than all restored ones.
	restoredFrom = "Troupe-Restored-From"
	maxConflicts = 10 // attempts while other nodes restore the same key
)

// Run checks the bucket until ctx ends. If the bucket was deleted, Run recreates it and restores
// every key that this node knows. It calls onEvent with "store.lost" when the loss is found and
// with "store.restored" when the bucket is complete again.
func (s *Store) Run(ctx context.Context, onEvent func(kind, detail string)) {
	tick := s.rt.After(checkInterval)
	s.mu.Lock()
	s.onEvent.Store(&onEvent)
	pending := s.pendingEvents
	s.pendingEvents = nil
	s.mu.Unlock()
	for _, e := range pending {
		onEvent(e.kind, e.detail)
	}
	var copying sync.WaitGroup
	defer copying.Wait()
	supervise.GoIn(s.rt, &copying, func() { s.watchForCopy(ctx) })
	for {
		s.local.raiseTermLimit()
		if err := s.ensureRestored(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug().Err(err).Msg("store not checked")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
			tick = s.rt.After(checkInterval)
		}
	}
}

// Lost reports whether the bucket is missing or not restored yet.
func (s *Store) Lost() bool { return s.lost.Load() }

// ensureRestored returns after the bucket has all that this node knows. A watch must not begin
// earlier, since it would report missing keys as deleted. Several nodes may restore at once: each
// key is written by compare-and-set.
func (s *Store) ensureRestored(ctx context.Context) error {
	s.restoring.Lock()
	defer s.restoring.Unlock()
	ctx, cancel := s.rt.WithTimeout(ctx, checkTimeout)
	defer cancel()
	before := s.mirror.lastRevision()
	stream, err := s.js.Stream(ctx, bucket.Stream(Bucket))
	if err == nil && stream.CachedInfo().Created.Equal(s.mirror.createdAt()) &&
		stream.CachedInfo().State.LastSeq < before {
		if err = s.recreateRolledBack(ctx, stream, before); err == nil {
			stream, err = s.js.Stream(ctx, bucket.Stream(Bucket))
		}
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s.reportState(true, "bucket "+Bucket+" was deleted; restoring it from this node's memory")
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
	s.reportState(true, "bucket "+Bucket+" was recreated; restoring missing keys from this node's memory")
	written := 0
	known := s.mirror.snapshot()
	for _, key := range slices.Sorted(maps.Keys(known)) {
		wrote, err := s.restore(ctx, stream, key, known[key])
		if err != nil {
			return s.logFailure(fmt.Errorf("restore key %s: %w", key, err))
		}
		if wrote {
			written++
		}
	}
	s.mirror.advance(info.State.LastSeq)
	s.mirror.setCreated(info.Created)
	s.reportState(false, fmt.Sprintf("this node wrote %d keys", written))
	s.restartWatches()
	return nil
}

// restore writes a key that the bucket lacks, or that it has from a node that knew an older
// revision.
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
				s.mirror.replace(key, entry{value: now.Data, revision: now.Sequence,
					deleted: now.Header.Get(operationHeader) != ""})
				return false, nil
			}
		}
		msg := &nats.Msg{Subject: subject, Header: nats.Header{restoredFrom: {strconv.FormatUint(h.revision, 10)}}}
		if h.deleted {
			msg.Header.Set(operationHeader, operationDelete)
		} else if msg.Data, err = restoredValue(key, h); err != nil {
			s.log.Error().Err(err).Msg("cannot restore stored value")
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
	return false, errors.New("too many conflicting writes by other nodes")
}

// restoredValue returns the value of a key to write to a recreated bucket. An adapter keeps the
// revision that it was registered with, since that revision identifies its KV blocks.
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

// reportState reports the loss or the restoration of the bucket, if the state has changed.
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
		s.log.Error().Err(err).Msg("cannot restore store; retrying")
	}
	return err
}

// restartWatches makes every watch start over.
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
