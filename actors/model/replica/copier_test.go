package replica_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/replica"
	"troupe/actors/model/replica/copier"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/testkit"
)

// copierProps returns the props of a replica's copier.
func (c *cluster) copierProps(tiers replica.Tiers, of replica.CopierSpec, holder *residency.Store,
	mw []actor.ReceiverMiddleware) *actor.Props {
	cfg := copier.Config{Incarnation: of.Incarnation, Remote: tiers.Remote, Bulk: c.bulk, Gate: of.Gate,
		OnCopied:   tiers.OnCopied,
		OpenBlocks: func() (copier.Blocks, error) { return holder.OpenBlocks(of.Handle) }}
	for _, t := range tiers.Lower {
		cfg.Tiers = append(cfg.Tiers, copier.Tier{Name: t.Name, Actor: t.Actor, Store: t.Store})
	}
	return copier.Props(cfg).Configure(actor.WithReceiverMiddleware(append(slices.Clone(mw), testkit.Wire)...))
}

// crashCopier sends the first replica's copier a message on which an armed trigger crashes it.
func (r *tierCluster) crashCopier(crash *trigger) {
	crash.armed.Store(true)
	r.sys.Root.Send(actor.NewPID(r.a.GetAddress(), r.a.GetId()+"/copier"), &messages.ReleaseFoundBlocks{Copy: 1 << 60})
}

// TestCopierCrashes crashes the copier on each of its messages, and while a step waits at a gate.
// The missing blocks must be computed, and nothing must stay locked or referenced. The replica
// survives.
func TestCopierCrashes(t *testing.T) {
	for name, on := range map[string]string{
		"lookup requested": "*messages.LookUpBlocks",
		"lookup done":      "*copier.lookupDone",
		"copy requested":   "*messages.CopyFoundBlocks",
		"copy done":        "*copier.copyDone",
		"step waits":       "*messages.ReleaseFoundBlocks",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				crash := &trigger{on: on}
				var waits atomic.Int64
				r := newTierCluster(t, 1, slowPrefill, func(batch []engine.Sequence) {
					if slices.ContainsFunc(batch, gated) {
						waits.Add(1)
					}
				}, crash.middleware)
				r.runRestored("before", func() {})
				waits.Store(0)
				s := r.runRestored(name, func() {
					if name != "step waits" {
						crash.armed.Store(true)
						return
					}
					r.store.set(func(_ context.Context, b, l int) error {
						if l == modelLayers-1 && b == restorable-1 {
							time.Sleep(2*stepTime + 5*time.Millisecond)
							r.crashCopier(crash)
							time.Sleep(5 * time.Millisecond)
						}
						return nil
					})
				})
				if !crash.fired.Load() || s.GetIncarnation() != 1 {
					t.Errorf("the copier crashed: %v, incarnation %d of the replica", crash.fired.Load(),
						s.GetIncarnation())
				}
				if name == "step waits" && (waits.Load() == 0 || s.GetKvStepsAborted() != 1) {
					t.Errorf("%d steps waited, %d were aborted", waits.Load(), s.GetKvStepsAborted())
				}
				if s = r.runRestored("after", func() {}); s.GetKvRestored() < 2*restorable {
					t.Errorf("%d blocks were restored by a copier that crashed before", s.GetKvRestored())
				}
				r.checkUnlocked()
				r.checkEmpty()
			})
		})
	}
}
