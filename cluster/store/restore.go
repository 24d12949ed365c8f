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
	maxConflicts = 10 // attempts while other nodes change the same key
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
		case <-tick:
		}
		if ctx.Err() != nil { // even if it is time for a check
			return
		}
		tick = s.rt.After(checkInterval)
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
	info, err := s.client.Info(ctx, Bucket)
	if err == nil && info.Created.Equal(s.mirror.createdAt()) && info.Config.Replicas <= 1 {
		info, err = s.recreateRolledBack(ctx, info, before)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s.reportState(true, "bucket "+Bucket+" was deleted; restoring it from this node's memory")
		info, err = s.open(ctx)
	}
	if err != nil {
		return s.logFailure(err)
	}
	if info.Created.Equal(s.mirror.createdAt()) {
		s.mirror.advance(info.State.LastSeq)
		s.reportState(false, "")
		return nil
	}
	s.reportState(true, "bucket "+Bucket+" was recreated; restoring missing keys from this node's memory")
	written := 0
	known := s.mirror.snapshot()
	for _, key := range slices.Sorted(maps.Keys(known)) {
		wrote, err := s.restore(ctx, key, known[key])
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
func (s *Store) restore(ctx context.Context, key string, h entry) (wrote bool, err error) {
	for range maxConflicts {
		var over uint64
		now, err := s.client.Last(ctx, Bucket, key)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case err != nil:
			return false, err
		default:
			from, err := strconv.ParseUint(now.Header.Get(restoredFrom), 10, 64)
			if over = now.Sequence; err != nil || from >= h.revision {
				s.mirror.replace(key, entry{value: now.Data, revision: now.Sequence,
					deleted: now.Header.Get(operationHeader) != "", stored: now.Time})
				return false, nil
			}
		}
		value := bucket.Value{Header: nats.Header{restoredFrom: {strconv.FormatUint(h.revision, 10)}}}
		if h.deleted {
			value.Header.Set(operationHeader, operationDelete)
			value.Data = h.value
		} else if value.Data, err = restoredValue(key, h); err != nil {
			s.log.Error().Err(err).Msg("cannot restore stored value")
			return false, nil
		}
		revision, err := s.client.Write(ctx, Bucket, key, value, over)
		if err == nil {
			s.mirror.replace(key, entry{value: value.Data, revision: revision, deleted: h.deleted})
			return true, nil
		}
		if !bucket.IsConflict(err) {
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
