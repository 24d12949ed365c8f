package replica

import (
	"cmp"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// Tiers configures the KV tiers below HBM.
type Tiers struct {
	Lower []Tier // fastest first; empty: no offload
	// Watermark is the share of HBM blocks above which blocks are offloaded ahead of need; default
	// kv.DefaultWatermark.
	Watermark float64
	IdleSteps uint64 // steps after which an unreferenced block is offloaded; default 100
	// Restore decides between restoring blocks and recomputing them; default kv.RestoreAuto.
	// kv.RestoreAlways also waits up to tierTimeout for lookups and restores.
	Restore kv.RestorePolicy
	// Remote is the tier that fetches blocks from other replicas and nodes. Nil: no blocks are
	// fetched. RemoteAvailable reports whether there are other replicas or nodes.
	Remote          *actor.PID
	RemoteAvailable func() bool
	// PartBytes is the minimum size of the parts in which a block is restored. Prefill can start
	// once the first parts have arrived. Default 256 KiB.
	PartBytes int
	// OnCopied is called for each copy of a block between HBM and a tier, failed ones included.
	// Nil: no calls.
	OnCopied kvstore.Report
}

// Tier is a KV tier below HBM.
type Tier struct {
	Name  string // such as "dram"
	Actor *actor.PID
	Store kvstore.Store
}

const (
	defaultIdleSteps  = 100
	burstShare        = 16                     // the HBM blocks divided by it are the maximum of one offload
	maxLookups        = 8                      // maximum number of concurrent lookups and restores for sequences
	tierTimeout       = 2 * time.Second        // of a tier's answer
	lookupTimeout     = 100 * time.Millisecond // of a tier's answer while a sequence is held for it
	offloadBackoff    = time.Second            // after an offload that the tier did not accept
	minRestoreTimeout = 20 * time.Millisecond  // minimum timeout of a restore, however fast recomputing is
	stepsPerReport    = 32                     // steps between two StepsDone
)

// kvTiers is the state of a replica's tiers below HBM.
type kvTiers struct {
	Tiers
	down, up  Blocks  // one copy stream per direction
	namespace kv.Hash // of the revision's files and the layout of the blocks
	ready     bool    // namespace is set

	offloading    bool
	offloadAll    *offloadCommand      // nil: no OffloadBlocks command
	pendingLookup map[string]bool      // waiting sequences that have not been looked up since they were queued
	held          map[string]bool      // sequences held for their own lookup and restore
	waiters       map[kv.Hash][]string // by first missing block: sequences held for another one's lookup
	lookupsDone   []*lookupDone        // to be applied between two steps
	restoresDone  []*restoreDone       // to be applied between two steps
	overlaps      map[uint64]*overlap
	lastGate      uint64 // last number of a gate
	lastRequest   uint64
	stepsReported uint64 // step of the last StepsDone

	burst       kv.BurstEstimator  // of block allocations in HBM
	prefillRate kv.Rate            // tokens per second
	pathRates   []kv.Rate          // bytes per second, by tier
	exports     map[string]*export // by request id: blocks being sent to another replica
	totals      tierTotals
}

// tierTotals counts blocks unless stated otherwise.
type tierTotals struct {
	offloaded, restored, recomputed uint64
	restores, avoided               uint64 // number of sequences
	fetched, fetchFailed, exported  uint64
	overlapped                      uint64 // number of sequences
	aborted                         uint64 // number of steps
}

// openTiers prepares the copies between the lease's blocks and the tiers.
func (r *replica) openTiers() {
	tiers := r.Tiers
	if r.Bulk == nil || r.Router == nil {
		tiers.Remote = nil
	}
	if tiers.Lower = r.tiersThatFit(tiers.Lower); len(tiers.Lower) == 0 && tiers.Remote == nil {
		return
	}
	l := &kvTiers{Tiers: tiers, pendingLookup: make(map[string]bool), held: make(map[string]bool),
		waiters:   make(map[kv.Hash][]string),
		pathRates: make([]kv.Rate, len(tiers.Lower)), exports: make(map[string]*export),
		overlaps: make(map[uint64]*overlap)}
	l.PartBytes = cmp.Or(l.PartBytes, defaultPartBytes)
	l.Watermark, l.IdleSteps = cmp.Or(l.Watermark, kv.DefaultWatermark), cmp.Or(l.IdleSteps, defaultIdleSteps)
	if l.OnCopied == nil {
		l.OnCopied = func(string, string, int, kvstore.Move) {}
	}
	for _, open := range []*Blocks{&l.down, &l.up} {
		blocks, err := r.OpenBlocks(r.model.GetLease())
		if err != nil {
			panic(err)
		}
		*open = blocks
	}
	r.kvTiers = l
	r.setNamespace(l)
}

// closeTiers ends all copies. When it returns, no copy of this incarnation accesses the blocks.
func (r *replica) closeTiers() {
	if r.kvTiers != nil {
		_, _ = r.kvTiers.down.Close(), r.kvTiers.up.Close() // the content of the blocks belongs to the lease
		r.kvTiers = nil
	}
}

func (r *replica) receiveTiers(ctx actor.Context) bool {
	switch msg := ctx.Message().(type) {
	case *offloadDone:
		r.onOffloadDone(ctx, msg)
	case *lookupDone:
		r.onLookupDone(ctx, msg)
	case *restoreDone:
		r.onRestoreDone(ctx, msg)
	case *overlapReady:
		r.onOverlapReady(ctx, msg)
	case *messages.LeaseBlocks:
		r.onLeaseBlocks(ctx, msg)
	case *messages.ReleaseBlocks:
		r.onReleaseBlocks(msg)
	case *exportDone:
		r.onExportDone(ctx, msg)
	case *offloadRetry:
		if r.kvTiers != nil && msg.incarnation == r.incarnation {
			r.kvTiers.offloading = false
			r.advance(ctx)
		}
	default:
		return false
	}
	return true
}

// markPending marks a waiting sequence whose blocks may be in a lower tier.
func (r *replica) markPending(id string) {
	if r.kvTiers != nil {
		r.kvTiers.pendingLookup[id] = true
	}
}

// tickTiers does the tiers' work between two steps.
func (r *replica) tickTiers(ctx actor.Context) {
	l := r.kvTiers
	if l == nil || !l.ready {
		return
	}
	all := l.lookupsDone
	l.lookupsDone = nil
	for _, found := range all {
		r.restore(ctx, found)
	}
	r.startReady()
	r.lookupNext(ctx)
	if len(l.Lower) == 0 {
		return
	}
	r.offloadAboveWatermark(ctx)
	if r.machine.Steps()-l.stepsReported >= stepsPerReport {
		for _, t := range l.Lower {
			ctx.Send(t.Actor, &messages.StepsDone{Steps: uint32(r.machine.Steps() - l.stepsReported)})
		}
		l.stepsReported = r.machine.Steps()
		if !l.offloading {
			r.offload(ctx, r.pool.SelectIdle(l.IdleSteps, r.burst()))
		}
	}
	r.continueOffloadAll(ctx)
}
