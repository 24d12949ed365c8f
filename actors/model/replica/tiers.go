package replica

import (
	"cmp"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/kv"
	"troupe/core/restore"
	"troupe/engine"
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
	// kv.RestoreAlways also waits longer for lookups and restores.
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
	defaultIdleSteps = 100
	defaultPartBytes = 256 << 10       // disks and devices copy such parts nearly as fast as whole blocks
	burstShare       = 16              // the HBM blocks divided by it are the maximum of one offload
	tierTimeout      = 2 * time.Second // of a tier's answer
	offloadBackoff   = time.Second     // after an offload that the tier did not accept
	stepsPerReport   = 32              // steps between two StepsDone
)

// CopierSpec is what the copier needs of its replica.
type CopierSpec struct {
	Lease string
	// Incarnation is that of the copier's first incarnation. It is higher than those of all copiers
	// that the replica had before.
	Incarnation uint64
	// Gate receives the gates that engine steps pass, by number.
	Gate func(number uint64, gate engine.Gate)
}

// kvTiers is the state of a replica's tiers below HBM.
type kvTiers struct {
	Tiers
	down      Blocks  // for the copies to tiers and to other replicas
	namespace kv.Hash // of the revision's files and the layout of the blocks
	ready     bool    // namespace is set

	copier       *actor.PID
	copierLife   uint64 // incarnation of the copier
	restores     *restore.Machine
	prefetches   map[uint64]*restoreCommand // in progress
	lastPrefetch uint64

	offloading    bool
	offloadAll    *offloadCommand // nil: no OffloadBlocks command
	lastRequest   uint64
	stepsReported uint64 // step of the last StepsDone

	burst   kv.BurstEstimator  // of block allocations in HBM
	exports map[string]*export // by request id: blocks being sent to another replica
	totals  tierTotals
}

// tierTotals counts blocks.
type tierTotals struct{ offloaded, exported uint64 }

// hasRemote reports whether other replicas or nodes may hold blocks.
func (l *kvTiers) hasRemote() bool { return l.Remote != nil && l.RemoteAvailable() }

// names returns the names of the tiers.
func (l *kvTiers) names() []string {
	all := make([]string, len(l.Lower))
	for i, t := range l.Lower {
		all[i] = t.Name
	}
	return all
}

// tierRequest returns a new request id.
func (r *replica) tierRequest() string {
	r.kvTiers.lastRequest++
	return fmt.Sprintf("%s-%d-%d-%d", r.Spec.GetName(), r.lastAttempt, r.incarnation, r.kvTiers.lastRequest)
}

// openTiers prepares the copies between the lease's blocks and the tiers.
func (r *replica) openTiers(ctx actor.Context) {
	tiers := r.Tiers
	if r.Bulk == nil || r.Router == nil {
		tiers.Remote = nil
	}
	if tiers.Lower = r.tiersThatFit(tiers.Lower); len(tiers.Lower) == 0 && tiers.Remote == nil {
		return
	}
	l := &kvTiers{Tiers: tiers, exports: make(map[string]*export), prefetches: make(map[uint64]*restoreCommand)}
	l.PartBytes = cmp.Or(l.PartBytes, defaultPartBytes)
	l.Watermark, l.IdleSteps = cmp.Or(l.Watermark, kv.DefaultWatermark), cmp.Or(l.IdleSteps, defaultIdleSteps)
	if l.OnCopied == nil {
		l.OnCopied = func(string, string, int, kvstore.Move) {}
	}
	down, err := r.OpenBlocks(r.model.GetLease())
	if err != nil {
		panic(err)
	}
	l.down = down
	r.kvTiers = l
	r.setNamespace(l)
	r.openRestores(ctx)
}

// openRestores starts the copier. Numbers and incarnations begin above those of earlier incarnations
// of the replica, whose messages may still arrive.
func (r *replica) openRestores(ctx actor.Context) {
	l, first := r.kvTiers, r.incarnation<<32
	l.restores = restore.New(restore.Config{Tiers: l.names(), Policy: l.Restore, BlockBytes: int64(l.down.BlockBytes()),
		BlockTokens: r.pool.BlockTokens(), StepTokens: int(r.Spec.GetStepTokens()), Number: first,
		Parts: kvstore.Parts(l.down.BlockBytes(), l.down.Layers(), l.PartBytes)})
	l.copierLife = first
	pid, err := ctx.SpawnNamed(r.Copier(CopierSpec{r.model.GetLease(), first, r.gates.put}), "copier")
	if err != nil {
		panic(err)
	}
	l.copier = pid
}

// closeTiers ends the copies to tiers and other replicas. The copier ends its own when it stops,
// before another incarnation of the replica starts.
func (r *replica) closeTiers() {
	if r.kvTiers != nil {
		_ = r.kvTiers.down.Close() // the content of the blocks belongs to the lease
		r.kvTiers = nil
	}
}

func (r *replica) receiveTiers(ctx actor.Context) bool {
	switch msg := ctx.Message().(type) {
	case *offloadDone:
		r.onOffloadDone(ctx, msg)
	case *messages.CopierReady:
		r.onCopierReady(ctx, msg)
	case *messages.LookUpBlocksResult:
		r.onLookedUp(ctx, msg)
	case *messages.FoundBlocksPart:
		r.onPartArrived(ctx, msg)
	case *messages.CopyFoundBlocksResult:
		r.onCopied(ctx, msg)
	case *messages.LeaseBlocks:
		r.onLeaseBlocks(ctx, msg)
	case *messages.ReleaseBlocks:
		r.onReleaseBlocks(msg)
	case *exportDone:
		r.onExportDone(ctx, msg)
	case *offloadRetry:
		if r.kvTiers != nil && msg.incarnation == r.incarnation {
			r.kvTiers.offloading = false
			r.Advance(ctx)
		}
	default:
		return false
	}
	return true
}

// tickTiers does the tiers' work between two steps.
func (r *replica) tickTiers(ctx actor.Context) {
	l := r.kvTiers
	if l == nil || !l.ready {
		return
	}
	r.judgeLookups(ctx)
	r.performRestore(ctx, l.restores.StartReady())
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
