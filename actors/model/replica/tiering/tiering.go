package tiering

import (
	"cmp"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/kv"
	"troupe/core/restore"
	"troupe/engine"
	"troupe/messages"
)

// Tiering handles a replica's exchange of blocks with the KV tiers below HBM and with other
// replicas. The replica calls its methods with the messages that it receives.
type Tiering struct {
	Config
	host     Host
	gates    *engine.Gates
	kvTiers  *kvTiers // nil: no tier below HBM and no remote tier
	offloads offloads
}

// New returns a Tiering that refuses everything until Open. gates receives the gates that steps
// pass.
func New(cfg Config, host Host, gates *engine.Gates) *Tiering {
	t := &Tiering{Config: cfg, host: host, gates: gates}
	t.openOffloads(false)
	return t
}

// kvTiers is the state of a replica's tiers below HBM.
type kvTiers struct {
	Tiers
	down      Blocks  // source of copies to tiers and to other replicas
	namespace kv.Hash // namespace of hashes: the revision's files and the layout of the blocks
	ready     bool    // the namespace is set

	copier       *actor.PID
	copierLife   uint64 // current incarnation of the copier
	restores     *restore.Machine
	prefetches   map[uint64]*restoreCommand // commands in progress
	lastPrefetch uint64

	lastRequest uint64
}

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
func (t *Tiering) tierRequest() string {
	t.kvTiers.lastRequest++
	return fmt.Sprintf("%s-%d-%d-%d", t.Spec.GetName(), t.Started, t.Incarnation, t.kvTiers.lastRequest)
}

// Open prepares copying between the blocks of the lease and the tiers, once the blocks are adopted.
func (t *Tiering) Open(ctx actor.Context) {
	t.openTiers(ctx)
	t.openOffloads(true)
}

func (t *Tiering) openTiers(ctx actor.Context) {
	tiers := t.Tiers
	if tiers.Lower = t.tiersThatFit(tiers.Lower); len(tiers.Lower) == 0 && tiers.Remote == nil {
		return
	}
	l := &kvTiers{Tiers: tiers, prefetches: make(map[uint64]*restoreCommand)}
	l.PartBytes = cmp.Or(l.PartBytes, kv.DefaultPartBytes)
	down, err := t.OpenBlocks()
	if err != nil {
		panic(err)
	}
	l.down = down
	t.kvTiers = l
	if digest := t.Machine.Model().RevisionDigest; digest != "" {
		l.namespace, l.ready = kv.Root(down.Layout(), digest, nil), true
	}
	t.openRestores(ctx)
}

// openRestores starts the copier. Its numbers and incarnations start above those of earlier
// incarnations of the replica, whose messages may still arrive.
func (t *Tiering) openRestores(ctx actor.Context) {
	l, first := t.kvTiers, t.Incarnation<<32
	l.restores = restore.New(restore.Config{Tiers: l.names(), Policy: l.Restore, BlockBytes: int64(l.down.BlockBytes()),
		BlockTokens: t.Machine.Pool().BlockTokens(), StepTokens: int(t.Spec.GetStepTokens()), Number: first,
		Parts: kv.Parts(l.down.BlockBytes(), l.down.Layers(), l.PartBytes)})
	l.copierLife = first
	pid, err := ctx.SpawnNamed(t.Copier(CopierSpec{t.Machine.Model().Handle, first, t.gates.Put}), "copier")
	if err != nil {
		panic(err)
	}
	l.copier = pid
}

// Close ends the copies to tiers and other replicas. The copier ends its own copies when it stops,
// before another incarnation of the replica starts.
func (t *Tiering) Close() {
	if t.kvTiers != nil {
		_ = t.kvTiers.down.Close() // the content of the blocks belongs to the lease
		t.kvTiers = nil
	}
	t.openOffloads(false)
}

// Tick does the work for tiers that is due between two steps.
func (t *Tiering) Tick(ctx actor.Context) {
	l := t.kvTiers
	if l == nil || !l.ready {
		return
	}
	t.judgeLookups(ctx)
	t.performRestore(ctx, l.restores.StartReady())
	t.lookupNext(ctx)
	t.tickOffload(ctx)
}

// CopierPID returns the actor that copies blocks; nil: there are no tiers.
func (t *Tiering) CopierPID() *actor.PID {
	if t.kvTiers == nil {
		return nil
	}
	return t.kvTiers.copier
}

// AddCounts adds the counts of restores, offloads, and exports to a status.
func (t *Tiering) AddCounts(s *messages.ReplicaStatus) {
	if t.kvTiers == nil {
		return
	}
	c := t.kvTiers.restores.Counts()
	s.KvOffloaded, s.KvLent = t.offloads.machine.Stored(), t.offloads.exports.Sent()
	s.KvRestored, s.KvRecomputed = c.Restored, c.Recomputed
	s.KvRestores, s.KvRestoresAvoided = c.Restores, c.Avoided
	s.KvRestoresOverlapped, s.KvStepsAborted = c.Overlapped, c.Aborted
	s.KvOffloadReady = t.kvTiers.ready
	s.KvFetched, s.KvFetchFailed = c.Fetched, c.FetchFailed
}
