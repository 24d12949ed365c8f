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

// ReadAll returns every key of a bucket, and its last revision when they were listed. A key that is listed and
// cannot be read is in failed.
func ReadAll(ctx context.Context, stream jetstream.Stream, name string) (
	keys map[string]backup.Key, last uint64, failed []string, err error,
) {
	prefix := bucket.Subject(name, "")
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
	if err != nil {
		return nil, 0, nil, err
	}
	keys = make(map[string]backup.Key, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		key := strings.TrimPrefix(subject, prefix)
		msg, err := stream.GetLastMsgForSubject(ctx, subject)
		api := (*jetstream.APIError)(nil)
		if errors.As(err, &api) || errors.Is(err, jetstream.ErrMsgNotFound) {
			failed = append(failed, fmt.Sprintf("key %s: %v", key, err))
			continue
		}
		if err != nil {
			return nil, 0, nil, err
		}
		keys[key] = backup.Key{Value: msg.Data, Revision: msg.Sequence, Deleted: msg.Header.Get(operationHeader) != ""}
	}
	return keys, info.State.LastSeq, failed, nil
}

// reconcile compares the bucket with the copy in the data folder, and restores what it lacks; afterwards this
// node knows all of it.
func (s *Store) reconcile(ctx context.Context, known *backup.State) error {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	created := s.stream.CachedInfo().Created
	have, last, err := s.readAll(ctx)
	if err != nil {
		return err
	}
	if known != nil && !known.Created.Equal(created) {
		if otherCluster(known, have) {
			s.log.Error().Str("folder", s.local.folder).
				Msg("the copy of the desired state is of another cluster, and not used; it is replaced")
			known = nil
			s.mirror.resetRevision()
			s.local.discardTerms()
		} else {
			s.mirror.load(known.Keys, known.Revision, known.Created)
			if err := s.ensureRestored(ctx); err != nil {
				return err
			}
			have, last, err = s.readAll(ctx) // others may have written more
		}
	} else if known != nil {
		have, last, err = s.compareWithCopy(ctx, known, have, last)
	}
	if err == nil {
		s.mirror.load(have, last, s.createdOr(created))
	}
	return err
}

// createdOr returns when the bucket was made that this node knows, or created where it knows none.
func (s *Store) createdOr(created time.Time) time.Time {
	if made := s.mirror.createdAt(); !made.IsZero() {
		return made
	}
	return created
}

// compareWithCopy looks for what the bucket has lost since the copy was made of it. A bucket that has gone on since then
// outranks the copy: what it lacks was deleted.
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
				Msg("the store lacks what the copy of this node has, and was changed since; the store counts")
			return have, last, nil
		}
		if checked == compareChecks {
			s.deleteDamaged(ctx, known, have, last, "it lacks "+strings.Join(lost, ", "))
			err := s.ensureRestored(ctx)
			if err == nil {
				have, last, err = s.readAll(ctx)
			}
			return have, last, err
		}
		select { // a leader that was deposed may not know yet what was written since
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-time.After(compareInterval):
		}
		var err error
		if have, last, err = s.readAll(ctx); err != nil {
			return nil, 0, err
		}
	}
}

// remake deletes the bucket, after all that it and the copy have is known and on this node's disk; whole makes it
// again, with revisions above all.
func (s *Store) deleteDamaged(ctx context.Context, known *backup.State, have map[string]backup.Key, last uint64, why string) {
	s.reportState(true, "the bucket "+Bucket+" is damaged: "+why+"; it is made again from the copy and the memory of the nodes")
	s.mirror.load(known.Keys, known.Revision, known.Created)
	s.mirror.load(have, last, known.Created)
	err := s.local.save(ctx)
	if err == nil {
		err = s.js.DeleteStream(ctx, bucket.Stream(Bucket))
	}
	if err != nil {
		s.log.Error().Err(err).Msg("damaged bucket not deleted")
	}
}

// read is ReadAll, where JetStream may take a moment to answer.
func (s *Store) readAll(ctx context.Context) (have map[string]backup.Key, last uint64, err error) {
	for {
		var failed []string
		once, end := context.WithTimeout(ctx, checkTimeout)
		have, last, failed, err = ReadAll(once, s.stream, Bucket)
		end()
		if err == nil && len(failed) > 0 {
			s.log.Error().Strs("failed", failed).Msg("the store has keys that cannot be read")
		}
		if err == nil || !bucket.IsTransient(err) || ctx.Err() != nil {
			return have, last, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(compareInterval):
		}
	}
}

// otherCluster reports whether a copy is of another cluster than a bucket.
func otherCluster(known *backup.State, have map[string]backup.Key) bool {
	ours, theirs := known.Keys[secretKey], have[secretKey]
	return len(ours.Value) > 0 && len(theirs.Value) > 0 && !bytes.Equal(ours.Value, theirs.Value)
}

// recreateRolledBack has a bucket made again that has lost revisions under the running nodes, as one server does whose
// machine lost power. Of several servers a majority has all of them, and one that says otherwise is behind.
func (s *Store) recreateRolledBack(ctx context.Context, stream jetstream.Stream, before uint64) error {
	info := stream.CachedInfo()
	if info.Config.Replicas > 1 {
		return nil
	}
	have, last, _, err := ReadAll(ctx, stream, Bucket)
	if err != nil || last >= before {
		return err
	}
	known, _ := s.mirror.backupState()
	s.deleteDamaged(ctx, &known, have, last, fmt.Sprintf("revision %d is its last, and was %d", last, before))
	return nil
}
