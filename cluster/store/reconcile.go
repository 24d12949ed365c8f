package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/cluster/backup"
	"troupe/cluster/bucket"
)

// ReadAll returns every key of a bucket, and the bucket's last revision at the time of the listing.
// Keys that are listed but cannot be read are described in failed.
func ReadAll(ctx context.Context, c bucket.Client, name string) (
	keys map[string]backup.Key, last uint64, failed []string, err error,
) {
	names, last, err := c.Keys(ctx, name)
	if err != nil {
		return nil, 0, nil, err
	}
	keys = make(map[string]backup.Key, len(names))
	for _, key := range names {
		msg, err := c.Last(ctx, name, key)
		api := (*jetstream.APIError)(nil)
		if errors.As(err, &api) || errors.Is(err, jetstream.ErrMsgNotFound) {
			failed = append(failed, fmt.Sprintf("key %s: %v", key, err))
			continue
		}
		if err != nil {
			return nil, 0, nil, err
		}
		keys[key] = keyOf(msg)
	}
	return keys, last, failed, nil
}

// keyOf returns the key that a message of a bucket stores.
func keyOf(msg *jetstream.RawStreamMsg) backup.Key {
	return backup.Key{Value: msg.Data, Revision: msg.Sequence, Deleted: msg.Header.Get(operationHeader) != "",
		Stored: msg.Time}
}

// reconcile compares the bucket with the copy in the data folder and restores what the bucket
// lacks. Afterwards the mirror has all keys. The bucket was created at the given time.
func (s *Store) reconcile(ctx context.Context, created time.Time, known *backup.State) error {
	ctx, cancel := s.rt.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	have, last, err := s.readAll(ctx)
	if err != nil {
		return err
	}
	if known != nil && !known.Created.Equal(created) {
		if otherCluster(known, have) {
			s.log.Error().Str("folder", s.local.folder).
				Msg("copy of the desired state belongs to another cluster; replacing it")
			known = nil
			s.mirror.resetRevision()
			s.local.discardTerms()
		} else {
			s.mirror.load(known.Keys, known.Revision, known.Created)
			if err := s.ensureRestored(ctx); err != nil {
				return err
			}
			have, last, err = s.readAll(ctx) // other nodes may have written more
		}
	} else if known != nil {
		have, last, err = s.compareWithCopy(ctx, known, have, last)
	}
	if err == nil {
		s.mirror.load(have, last, s.createdOr(created))
	}
	return err
}

// createdOr returns the creation time of the bucket that this node knows, or created if it knows
// none.
func (s *Store) createdOr(created time.Time) time.Time {
	if made := s.mirror.createdAt(); !made.IsZero() {
		return made
	}
	return created
}

// compareWithCopy looks for what the bucket has lost since the copy was saved. A bucket with later
// revisions outranks the copy: keys that it lacks were deleted.
func (s *Store) compareWithCopy(
	ctx context.Context, known *backup.State, have map[string]backup.Key, last uint64,
) (map[string]backup.Key, uint64, error) {
	for checked := 0; ; checked++ {
		lost := known.Losses(have, last)
		if len(lost) == 0 {
			return have, last, nil
		}
		if last > known.Revision {
			s.log.Error().Strs("lost", lost).
				Msg("store lacks entries of this node's copy but has later changes; using the store")
			return have, last, nil
		}
		if checked == compareChecks {
			s.deleteDamaged(ctx, known, have, last, "missing "+strings.Join(lost, ", "))
			err := s.ensureRestored(ctx)
			if err == nil {
				have, last, err = s.readAll(ctx)
			}
			return have, last, err
		}
		select { // a leader that was replaced may lack recent writes
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-s.rt.After(compareInterval):
		}
		var err error
		if have, last, err = s.readAll(ctx); err != nil {
			return nil, 0, err
		}
	}
}

// deleteDamaged deletes the bucket after the contents of both the bucket and the copy are synced to
// this node's disk. ensureRestored then creates it again, with revisions above all known ones.
func (s *Store) deleteDamaged(
	ctx context.Context, known *backup.State, have map[string]backup.Key, last uint64, why string,
) {
	s.reportState(true, "bucket "+Bucket+" is damaged ("+why+"); restoring it from the copy and the nodes' memory")
	s.mirror.load(known.Keys, known.Revision, known.Created)
	s.mirror.load(have, last, known.Created)
	if later := s.mirror.overtake(have); len(later) > 0 {
		s.log.Warn().Strs("keys", later).Msg("store was changed after it lost revisions; keeping the later changes")
	}
	err := s.local.save(ctx)
	if err == nil {
		err = s.client.Delete(ctx, Bucket)
	}
	if err != nil {
		s.log.Error().Err(err).Msg("damaged bucket not deleted")
	}
}

// readAll is like ReadAll, but retries while JetStream does not answer.
func (s *Store) readAll(ctx context.Context) (have map[string]backup.Key, last uint64, err error) {
	for {
		var failed []string
		once, end := s.rt.WithTimeout(ctx, checkTimeout)
		have, last, failed, err = ReadAll(once, s.client, Bucket)
		end()
		if err == nil && len(failed) > 0 {
			s.log.Error().Strs("failed", failed).Msg("store has unreadable keys")
		}
		if err == nil || !bucket.IsTransient(err) || ctx.Err() != nil {
			return have, last, err
		}
		select {
		case <-ctx.Done():
		case <-s.rt.After(compareInterval):
		}
	}
}

// otherCluster reports whether the copy belongs to another cluster than the bucket.
func otherCluster(known *backup.State, have map[string]backup.Key) bool {
	ours, theirs := known.Keys[secretKey], have[secretKey]
	return len(ours.Value) > 0 && len(theirs.Value) > 0 && !bytes.Equal(ours.Value, theirs.Value)
}
