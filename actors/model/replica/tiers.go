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
	Lower     []Tier  // the fastest first; none: nothing is offloaded
	Watermark float64 // share of the HBM blocks above which the others are copied down ahead of need; default kv.DefaultWatermark
	IdleSteps uint64  // after so many a block that nobody reads is copied down; default 100
	// Always restores what lies below, also where recomputing would be faster, and where it is long looked for. For tests and measurements.
	Always bool
	// Remote is the tier that fetches what other replicas and nodes hold; nil: nothing is. Elsewhere reports whether there are any.
	Remote    *actor.PID
	Elsewhere func() bool
	// PartBytes is the least of a block that is copied at once, so that prefill can begin before the rest; default 256 KiB. Early begins it with the restore,
	// whatever that takes, and waits for it: for tests.
	PartBytes int
	Early     bool
	// Copied is told of each block that was to be copied between HBM and a tier. Nil: nobody is.
	Copied kvstore.Report
}

// Tier is one of them.
type Tier struct {
	Name  string // "dram"
	Actor *actor.PID
	Store kvstore.Store
}

const (
	defaultIdle  = 100
	burstShare   = 16                     // of the HBM blocks, one part leaves at once
	maxLooks     = 8                      // sequences whose blocks are looked for, or restored, at once
	tierWithin   = 2 * time.Second        // a tier may take to answer
	lookWithin   = 100 * time.Millisecond // likewise, while a sequence is held for it
	tierRest     = time.Second            // after blocks could not be offloaded
	restoreLeast = 20 * time.Millisecond  // a restore may take, however fast recomputing is
	stepsTold    = 32                     // steps between two StepsDone
)

// lower is what a replica knows of the tiers below HBM.
type lower struct {
	Tiers
	down, up Blocks  // a stream of its own for each direction
	space    kv.Hash // of the revision's files and the layout of the blocks: blocks of another one are other blocks
	ready    bool    // space is known

	offloading bool
	all        *offloadAll          // nil: only what has to leave does
	wanting    map[string]bool      // waiting sequences whose blocks were not looked for since they began to wait
	looks      map[string]bool      // sequences that are held until their blocks are restored
	sought     map[kv.Hash][]string // first blocks of these, and the sequences that are held until that is over
	located    []*located           // to be acted on between two steps
	ended      []*restored          // likewise
	rising     map[uint64]*rising
	gate       uint64 // the last one
	requests   uint64
	told       uint64 // the step of the last StepsDone

	needs   kv.BurstEstimator // places in HBM
	prefill kv.Rate           // tokens
	paths   []kv.Rate         // bytes, by tier
	loans   map[string]*loan  // request id -> blocks being sent to another replica
	totals  tierTotals
}

// tierTotals count blocks.
type tierTotals struct {
	offloaded, restored, recomputed uint64
	restores, avoided               uint64 // sequences
	fetched, fetchFailed, lent      uint64
	overlapped                      uint64 // sequences
	void                            uint64 // steps
}

// openTiers makes ready to copy blocks of the lease.
func (r *replica) openTiers() {
	tiers := r.Tiers
	if r.Bulk == nil || r.Router == nil {
		tiers.Remote = nil
	}
	if tiers.Lower = r.fitting(tiers.Lower); len(tiers.Lower) == 0 && tiers.Remote == nil {
		return
	}
	l := &lower{Tiers: tiers, wanting: make(map[string]bool), looks: make(map[string]bool), sought: make(map[kv.Hash][]string),
		paths: make([]kv.Rate, len(tiers.Lower)), loans: make(map[string]*loan), rising: make(map[uint64]*rising)}
	l.PartBytes = cmp.Or(l.PartBytes, partBytes)
	l.Watermark, l.IdleSteps = cmp.Or(l.Watermark, kv.DefaultWatermark), cmp.Or(l.IdleSteps, defaultIdle)
	if l.Copied == nil {
		l.Copied = func(string, string, int, kvstore.Move) {}
	}
	for _, open := range []*Blocks{&l.down, &l.up} {
		blocks, err := r.Blocks(r.model.GetLease())
		if err != nil {
			panic(err)
		}
		*open = blocks
	}
	r.lower = l
	r.openSpace(l)
}

// closeTiers ends all copies: when it returns, none of this life's is under way in the blocks.
func (r *replica) closeTiers() {
	if r.lower != nil {
		_, _ = r.lower.down.Close(), r.lower.up.Close() // what is in the blocks is kept by lease
		r.lower = nil
	}
}

func (r *replica) receiveTiers(ctx actor.Context) bool {
	switch msg := ctx.Message().(type) {
	case *offloaded:
		r.onOffloaded(ctx, msg)
	case *located:
		r.onLocated(ctx, msg)
	case *restored:
		r.onRestored(ctx, msg)
	case *ripe:
		r.onRipe(ctx, msg)
	case *messages.LeaseBlocks:
		r.onLease(ctx, msg)
	case *messages.ReleaseBlocks:
		r.onReleaseLease(msg)
	case *returned:
		r.onReturned(ctx, msg)
	case *tiersRested:
		if r.lower != nil && msg.incarnation == r.incarnation {
			r.lower.offloading = false
			r.advance(ctx)
		}
	default:
		return false
	}
	return true
}

// want says that a sequence waits, and that what it needs may lie below.
func (r *replica) want(id string) {
	if r.lower != nil {
		r.lower.wanting[id] = true
	}
}

// tend does what tiers need between two steps.
func (r *replica) tend(ctx actor.Context) {
	l := r.lower
	if l == nil || !l.ready {
		return
	}
	all := l.located
	l.located = nil
	for _, found := range all {
		r.restore(ctx, found)
	}
	r.beginRipe()
	r.look(ctx)
	if len(l.Lower) == 0 {
		return
	}
	blocks := r.pool.Stats()
	if l.needs.Observe(r.steps, blocks.Allocations); !l.offloading {
		r.offload(ctx, r.pool.SelectOffload(l.needs.Watermark(l.Watermark, blocks.Blocks), r.burst()))
	}
	if r.steps-l.told >= stepsTold {
		for _, t := range l.Lower {
			ctx.Send(t.Actor, &messages.StepsDone{Steps: uint32(r.steps - l.told)})
		}
		l.told = r.steps
		if !l.offloading {
			r.offload(ctx, r.pool.SelectIdle(l.IdleSteps, r.burst()))
		}
	}
	r.offloadMore(ctx)
}

// measure learns from a step that prefilled how fast that is.
func (r *replica) measure(step *flight) {
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
	if r.lower != nil {
		r.lower.prefill.Add(float64(tokens), took)
	}
}
