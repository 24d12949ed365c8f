package natskv_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"troupe/actors/supervise"
	"troupe/cluster/bucket"
	"troupe/testkit/natskv"
)

// TestFaults checks the faults of the store in memory: a lost answer, a stalled server, a slow one,
// and one that has lost its last revisions.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := natskv.NewServer(time.Now)
		c := server.Connect(supervise.System)
		defer c.Close()
		kv := side{a: c}.open(t, "x")
		put := func(text string) error {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := kv.Put(ctx, "k", []byte(text))
			return err
		}
		stored := func(want string) {
			t.Helper()
			if e, err := kv.Get(t.Context(), "k"); err != nil || string(e.Value()) != want {
				t.Errorf("stored is %v, %v; want %s", e, err, want)
			}
		}
		check(t, "a write", put("1"), nil)
		c.LoseAnswers(1)
		check(t, "a write without an answer", put("2"), context.DeadlineExceeded)
		stored("2")
		server.Stall(true)
		check(t, "a write to a stalled server", put("3"), context.DeadlineExceeded)
		server.Stall(false)
		stored("2")
		c.Slow(80 * time.Millisecond)
		check(t, "a slow write", put("4"), context.DeadlineExceeded)
		c.Slow(0)
		stored("4")
		server.RollBack("x", 2)
		if _, last, err := c.Keys(t.Context(), "x"); last != 100 || err != nil {
			t.Errorf("last revision %d, %v", last, err)
		}
		server.DeleteBucket("x")
		if _, err := c.Write(t.Context(), "x", "k", bucket.Value{}, 0); err == nil {
			t.Error("a write to a deleted bucket")
		}
	})
}
