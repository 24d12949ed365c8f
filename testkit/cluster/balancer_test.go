package cluster

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestPick checks that only nodes that are ready get requests, in turn, and that a request waits while
// there is none.
func TestPick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Balancer{all: []*backend{{}, {}, {}}}
		b.all[0].ready.Store(true)
		b.all[2].ready.Store(true)
		picked := make(map[*backend]int)
		for range 30 {
			picked[b.pick(t.Context())]++
		}
		if picked[b.all[0]] < 10 || picked[b.all[2]] < 10 || picked[b.all[1]] > 0 {
			t.Errorf("%v", picked)
		}
		b.all[0].ready.Store(false)
		b.all[2].ready.Store(false)
		time.AfterFunc(time.Minute, func() { b.all[1].ready.Store(true) })
		began := time.Now()
		if b.pick(t.Context()) != b.all[1] || time.Since(began) < time.Minute {
			t.Errorf("picked after %v", time.Since(began))
		}
		b.all[1].ready.Store(false)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if b.pick(ctx) != nil {
			t.Error("picked although none is ready")
		}
	})
}
