package members

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/bucket"
)

const (
	// The loss of terms must be seen in raiseChecks checks, raiseCheckInterval apart.
	raiseChecks        = 3
	raiseCheckInterval = 500 * time.Millisecond
	raiseTimeout       = 5 * time.Second
)

// RaiseTerms makes terms continue above limit. Members and leases are kept, with new revisions. No
// other process may write to the bucket meanwhile. A member whose record is lost joins again.
func RaiseTerms(
	ctx context.Context, c bucket.Client, limit uint64, rt supervise.Runtime, log zerolog.Logger,
) error {
	return newBucketClient(c, rt, log).renumber(ctx, limit)
}

// renumber rewrites the contents of the bucket with revisions above limit.
func (c *bucketClient) renumber(ctx context.Context, limit uint64) error {
	all, last, err := c.snapshot(ctx)
	if err != nil {
		return err
	}
	if err := c.Purge(ctx, Bucket, max(limit, last)+1); err != nil {
		return fmt.Errorf("KV bucket %s: %w", Bucket, err)
	}
	for _, e := range all {
		switch {
		case e.member != nil:
			_, err = c.put(ctx, e.key, e.member, 0)
		case e.lease != nil:
			_, err = c.put(ctx, e.key, e.lease, 0)
		default:
			_, err = c.write(ctx, e.key, deletion(), 0)
		}
		if err != nil && !errors.Is(err, errConflict) { // after a conflict the member's own write stands
			return fmt.Errorf("KV bucket %s: %w", Bucket, err)
		}
	}
	return nil
}

// raiseIfLost renumbers the bucket if it has lost a revision that was seen, so that no term is
// given twice.
func (c *bucketClient) raiseIfLost(ctx context.Context, seen, limit uint64) error {
	if seen == 0 {
		return nil
	}
	for range raiseChecks { // a former leader may lack recent writes
		info, err := c.Info(ctx, Bucket)
		if err != nil {
			return fmt.Errorf("KV bucket %s: %w", Bucket, err)
		}
		if info.State.LastSeq >= seen {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.rt.After(raiseCheckInterval):
		}
	}
	c.log.Error().Uint64("seen", seen).
		Msg("the bucket " + Bucket + " has lost terms that were in use; raising terms above them")
	return c.renumber(ctx, max(seen+termGap, limit))
}
