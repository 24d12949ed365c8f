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
	checkEvery  = time.Second
	checkWithin = 5 * time.Second
	// compareChecks and compareAfter are how often, and how far apart, a bucket must be found to have lost
	// something; reconcileWithin bounds all of it.
	compareChecks   = 2
	compareAfter    = 200 * time.Millisecond
	reconcileWithin = time.Minute
	// restoredFrom is a header with the revision that a restored key had before. Of several, the
	// highest counts; a key without it was written after the bucket was made again, and is newer
	// than all.
	restoredFrom  = "Troupe-Restored-From"
	mostConflicts = 10 // of nodes that restore the same key at once
)

// Keep checks the bucket until ctx ends. Where it was deleted, it is made again, and every key is
// restored that this node knows. tell is called for the loss and for the end of the restoration:
// "store.lost" and "store.restored".
func (s *Store) Keep(ctx context.Context, tell func(kind, detail string)) {
	ticks := time.NewTicker(checkEvery)
	defer ticks.Stop()
	s.mu.Lock()
	s.tell.Store(&tell)
	untold := s.untold
	s.untold = nil
	s.mu.Unlock()
	for _, e := range untold {
		tell(e.kind, e.detail)
	}
	var copying sync.WaitGroup
	defer copying.Wait()
	copying.Go(func() { s.follows(ctx) })
	for {
		s.copy.checkTerms()
		if err := s.whole(ctx); err != nil && ctx.Err() == nil {
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
func (s *Store) whole(ctx context.Context) error {
	s.restoring.Lock()
	defer s.restoring.Unlock()
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	before := s.seen.last()
	stream, err := s.js.Stream(ctx, bucket.Stream(Bucket))
	if err == nil && stream.CachedInfo().Created.Equal(s.seen.made()) && stream.CachedInfo().State.LastSeq < before {
		if err = s.wentBack(ctx, stream, before); err == nil {
			stream, err = s.js.Stream(ctx, bucket.Stream(Bucket))
		}
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s.say(true, "the bucket "+Bucket+" was deleted; it is restored from what this node knows")
		stream, err = s.open(ctx)
	}
	if err != nil {
		return s.complain(err)
	}
	info := stream.CachedInfo()
	if info.Created.Equal(s.seen.made()) {
		s.seen.reached(info.State.LastSeq)
		s.say(false, "")
		return nil
	}
	s.say(true, "the bucket "+Bucket+" was made again; what it lacks is restored from what this node knows")
	written := 0
	for key, h := range s.seen.all() {
		wrote, err := s.restore(ctx, stream, key, h)
		if err != nil {
			return s.complain(fmt.Errorf("restore key %s: %w", key, err))
		}
		if wrote {
			written++
		}
	}
	s.seen.reached(info.State.LastSeq)
	s.seen.belong(info.Created)
	s.say(false, fmt.Sprintf("%d keys were written again by this node", written))
	s.wake()
	return nil
}

// restore writes a key that the bucket lacks, or has from a node that knew an older revision.
func (s *Store) restore(ctx context.Context, stream jetstream.Stream, key string, h held) (wrote bool, err error) {
	subject := bucket.Subject(Bucket, key)
	for range mostConflicts {
		var over uint64
		now, err := stream.GetLastMsgForSubject(ctx, subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case err != nil:
			return false, err
		default:
			from, err := strconv.ParseUint(now.Header.Get(restoredFrom), 10, 64)
			if over = now.Sequence; err != nil || from >= h.revision {
				s.seen.replace(key, held{value: now.Data, revision: now.Sequence, deleted: now.Header.Get(operation) != ""})
				return false, nil
			}
		}
		msg := &nats.Msg{Subject: subject, Header: nats.Header{restoredFrom: {strconv.FormatUint(h.revision, 10)}}}
		if h.deleted {
			msg.Header.Set(operation, deletion)
		} else if msg.Data, err = restorable(key, h); err != nil {
			s.log.Error().Err(err).Msg("stored value not restored")
			return false, nil
		}
		ack, err := s.js.PublishMsg(ctx, msg,
			jetstream.WithExpectLastSequencePerSubject(over), jetstream.WithRetryAttempts(0))
		if err == nil {
			s.seen.replace(key, held{value: msg.Data, revision: ack.Sequence, deleted: h.deleted})
			return true, nil
		}
		if !conflict(err) {
			return false, err
		}
	}
	return false, errors.New("other nodes write it all the time")
}

// restorable returns the value of a key in a bucket with other revisions. An adapter keeps the
// revision that it was registered with, since KV blocks are known by it.
func restorable(key string, h held) ([]byte, error) {
	if !strings.HasPrefix(key, adapters) {
		return h.value, nil
	}
	spec := &messages.AdapterSpec{}
	if err := unmarshal(h.value, spec); err != nil {
		return nil, fmt.Errorf("key %s: %w", key, err)
	}
	return encode(revised(spec, h.revision))
}

func conflict(err error) bool {
	api := (*jetstream.APIError)(nil)
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// say tells that the bucket is lost, or whole again, where that is new.
func (s *Store) say(lost bool, detail string) {
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
	tell := s.tell.Load()
	if tell == nil {
		s.untold = append(s.untold, event{kind, detail})
	}
	s.mu.Unlock()
	if tell != nil {
		(*tell)(kind, detail)
	}
}

// complain logs why the bucket cannot be restored, once for each reason.
func (s *Store) complain(err error) error {
	if text := err.Error(); s.lost.Load() && text != s.complaint {
		s.complaint = text
		s.log.Error().Err(err).Msg("store not restored yet; this node goes on trying")
	}
	return err
}

// wake makes all watches begin again.
func (s *Store) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.again)
	s.again = make(chan struct{})
}

func (s *Store) awaken() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.again
}
