package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/cluster/backup"
)

// recreateRolledBack recreates a bucket of a single server that has lost revisions while nodes were
// running, as happens when its machine loses power. It returns the state of the bucket. With several
// servers a majority has all revisions, and a server that reports fewer is behind.
func (s *Store) recreateRolledBack(
	ctx context.Context, info *jetstream.StreamInfo, before uint64,
) (*jetstream.StreamInfo, error) {
	why := fmt.Sprintf("its last revision is %d and was %d", info.State.LastSeq, before)
	if info.State.LastSeq >= before {
		if !s.compare.Swap(false) {
			return info, nil
		}
		lost, err := s.lostLatest(ctx)
		if err != nil {
			s.compare.Store(true)
		}
		if err != nil || !lost {
			return info, err
		}
		why = "others were written in the place of its last revisions"
	}
	have, last, _, err := ReadAll(ctx, s.client, Bucket)
	if err != nil {
		return nil, err
	}
	now, err := s.client.Info(ctx, Bucket)
	if err != nil || !now.Created.Equal(info.Created) || info.State.LastSeq < before && last >= before {
		return now, err // another node has restored it
	}
	known, _ := s.mirror.backupState()
	s.deleteDamaged(ctx, &known, have, last, why)
	return s.client.Info(ctx, Bucket)
}

// latestKeys is the number of keys that are compared with the bucket after a lost connection.
const latestKeys = 16

// lostLatest reports whether the bucket has lost revisions, and has others in their place by now. It compares
// the keys that were changed last, as far as this node knows.
func (s *Store) lostLatest(ctx context.Context) (bool, error) {
	known, have, missing := s.mirror.snapshot(), make(map[string]backup.Key), false
	for _, key := range latest(known) {
		msg, err := s.client.Last(ctx, Bucket, key)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			missing = missing || !known[key].deleted
		case err != nil:
			return false, err
		default:
			have[key] = keyOf(msg)
		}
	}
	if lost := contradict(known, have); lost || !missing {
		return lost, nil
	}
	have, _, _, err := ReadAll(ctx, s.client, Bucket)
	if err != nil {
		s.log.Warn().Err(err).Msg("store not compared with this node's memory")
		return false, nil
	}
	return contradict(known, have), nil
}

// latest returns the keys with the highest revisions, the highest first.
func latest(known map[string]entry) []string {
	keys := slices.SortedFunc(maps.Keys(known), func(a, b string) int {
		return cmp.Or(cmp.Compare(known[b].revision, known[a].revision), cmp.Compare(a, b))
	})
	return keys[:min(len(keys), latestKeys)]
}

// contradict reports whether a bucket has an older revision of a key than the known one, or something else at a
// known revision. Neither is so unless the bucket has lost revisions. A key that it lacks may have been deleted
// and purged.
func contradict(known map[string]entry, have map[string]backup.Key) bool {
	at := make(map[uint64]string, len(known))
	for key, h := range known {
		at[h.revision] = key
	}
	for key, k := range have {
		h, there := known[key]
		if there && (k.Revision < h.revision || k.Revision == h.revision && !h.deleted && !h.same(entryOf(k))) {
			return true
		}
		if other := at[k.Revision]; other != "" && other != key {
			return true
		}
	}
	return false
}
