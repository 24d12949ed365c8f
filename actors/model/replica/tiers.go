package replica

import (
	"cmp"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// Tiers are the places for KV blocks below HBM.
type Tiers struct {
	Lower     []Tier  // the fastest first; none: nothing is offloadDone
	Watermark float64 // share of the HBM blocks above which the others are copied down ahead of need; default kv.DefaultWatermark
	IdleSteps uint64  // after so many a block that nobody reads is copied down; default 100
	// Always restores what lies below, also where recomputing would be faster, and where it is long looked for. For tests and measurements.
	Always bool
	// Remote is the tier that fetches what other replicas and nodes hold; nil: nothing is. RemoteAvailable reports whether there are any.
	Remote          *actor.PID
	RemoteAvailable func() bool
	// PartBytes is the least of a block that is copied at once, so that prefillRate can begin before the rest; default 256 KiB. Early begins it with the restore,
	// whatever that takes, and waits for it: for tests.
	PartBytes int
	Early     bool
	// OnCopied is told of each block that was to be copied between HBM and a tier. Nil: nobody is.
	OnCopied kvstore.Report
}

// Tier is one of them.
type Tier struct {
	Name  string // "dram"
	Actor *actor.PID
	Store kvstore.Store
}

const (
	defaultIdleSteps  = 100
	burstShare        = 16                     // of the HBM blocks, one part leaves at once
	maxLookups        = 8                      // sequences whose blocks are looked for, or restoreDone, at once
	tierTimeout       = 2 * time.Second        // a tier may take to answer
	lookupTimeout     = 100 * time.Millisecond // likewise, while a sequence is held for it
	offloadBackoff    = time.Second            // after blocks could not be offloadDone
	minRestoreTimeout = 20 * time.Millisecond  // a restore may take, however fast recomputing is
	stepsPerReport    = 32                     // steps between two StepsDone
)

// lower is what a replica knows of the tiers below HBM.
type kvTiers struct {
	Tiers
	down, up  Blocks  // a stream of its own for each direction
	namespace kv.Hash // of the revision's files and the layout of the blocks: blocks of another one are other blocks
	ready     bool    // space is known

	offloading    bool
	offloadAll    *offloadCommand      // nil: only what has to leave does
	pendingLookup map[string]bool      // waiting sequences whose blocks were not looked for since they began to wait
	held          map[string]bool      // sequences that are held until their blocks are restoreDone
	waiters       map[kv.Hash][]string // first blocks of these, and the sequences that are held until that is over
	lookupsDone   []*lookupDone        // to be acted on between two steps
	restoresDone  []*restoreDone       // likewise
	overlaps      map[uint64]*overlap
	lastGate      uint64 // the last one
	lastRequest   uint64
	stepsReported uint64 // the step of the last StepsDone

	burst       kv.BurstEstimator  // places in HBM
	prefillRate kv.Rate            // tokens
	pathRates   []kv.Rate          // bytes, by tier
	exports     map[string]*export // request id -> blocks being sent to another replica
	totals      tierTotals
}

// tierTotals count blocks.
type tierTotals struct {
	offloaded, restored, recomputed uint64
	restores, avoided               uint64 // sequences
	fetched, fetchFailed, exported  uint64
	overlapped                      uint64 // sequences
	aborted                         uint64 // steps
}

// openTiers makes ready to copy blocks of the lease.
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

// closeTiers ends all copies: when it returns, none of this life's is under way in the blocks.
func (r *replica) closeTiers() {
	if r.kvTiers != nil {
		_, _ = r.kvTiers.down.Close(), r.kvTiers.up.Close() // what is in the blocks is kept by lease
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

// want says that a sequence waits, and that what it needs may lie below.
func (r *replica) markPending(id string) {
	if r.kvTiers != nil {
		r.kvTiers.pendingLookup[id] = true
	}
}

// tend does what tiers need between two steps.
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
	blocks := r.pool.Stats()
	if l.burst.Observe(r.steps, blocks.Allocations); !l.offloading {
		r.offload(ctx, r.pool.SelectOffload(l.burst.Watermark(l.Watermark, blocks.Blocks), r.burst()))
	}
	if r.steps-l.stepsReported >= stepsPerReport {
		for _, t := range l.Lower {
			ctx.Send(t.Actor, &messages.StepsDone{Steps: uint32(r.steps - l.stepsReported)})
		}
		l.stepsReported = r.steps
		if !l.offloading {
			r.offload(ctx, r.pool.SelectIdle(l.IdleSteps, r.burst()))
		}
	}
	r.continueOffloadAll(ctx)
}

// measurePrefill learns from a step that prefilled how fast that is.
func (r *replica) measurePrefill(step *inflightStep) {
	tokens, prefills := 0, false
	for _, e := range step.entries {
		if e.Restoring {
			return // it may have waited
		}
		tokens, prefills = tokens+len(e.Tokens), prefills || len(e.Tokens) > 1
	}
	if !prefills {
		return
	}
	took := time.Since(step.began)
	r.batch.Observe(tokens, took)
	if r.kvTiers != nil {
		r.kvTiers.prefillRate.Add(float64(tokens), took)
	}
}
