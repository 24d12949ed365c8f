package kvblock

import (
	"bytes"
	"context"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// TierConfig configures a tier below HBM. It is fixed for the life of the actor and shared by its
// restarts.
type TierConfig struct {
	Name  string // "dram"
	Store kvstore.Store
	// Limits are those of the tier; Slabs and MaxDemoteBytes are set from the stores.
	Limits    kv.TierLimits
	Policy    string         // eviction policy; default kv.DefaultPolicy
	Below     *Lower         // nil: blocks that leave are dropped
	OnDemoted kvstore.Report // called for each block of a demotion; may be nil
	Router    *actor.PID     // gets announcements of the blocks; may be nil
	DataPlane DataPlane      // nil: the tier exports no blocks
	Log       zerolog.Logger
}

// Lower is the tier below another one.
type Lower struct {
	Name  string
	Tier  *actor.PID
	Store kvstore.Store
}

// TierProps returns the props of a tier below HBM.
func TierProps(cfg TierConfig) *actor.Props {
	var incarnation uint64
	if cfg.Limits.Slabs = cfg.Store.Slabs(); cfg.Policy == "" {
		cfg.Policy = kv.DefaultPolicy
	}
	if cfg.Below != nil {
		cfg.Limits.MaxDemoteBytes = cfg.Below.Store.SlotBytes()
	}
	if cfg.OnDemoted == nil {
		cfg.OnDemoted = func(string, string, int, kvstore.Move) {}
	}
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &tierActor{TierConfig: cfg, incarnation: incarnation}
	})
}

type tierActor struct {
	TierConfig
	incarnation uint64
	lifetime    context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc

	tier       *kv.Tier
	reserved   map[string]*messages.ReserveSlotsResult // request id -> slots it may write to
	waiting    []reservation                           // in order of arrival
	locked     map[string]*messages.LockBlocksResult   // request id -> slots it may read
	pins       map[string]*replicaPins                 // by replica
	flushes    map[string]*flush                       // by request id
	demotions  []kv.Demotion                           // Leaving, but not being copied yet
	demoting   bool                                    // a demotion runs, or pauses after a failure
	demoteJobs uint64
	damaged    uint64

	announcer *kv.Announcer
	exports   map[string]*export // by request id
	exported  uint64
}

func (s *tierActor) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		s.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		s.cancel()
		s.waiting = nil
	case *messages.ReserveSlots:
		s.onReserve(ctx, msg)
	case *messages.CommitBlocks:
		s.onCommit(ctx, msg)
	case *messages.LockBlocks:
		s.onLock(ctx, msg)
	case *messages.UnlockBlocks:
		s.onUnlock(msg)
	case *messages.StepsDone:
		s.onSteps(ctx, msg)
	case *demoteDone:
		s.onDemoteDone(ctx, msg)
	case *retryDemote:
		s.onRetryDemote(ctx, msg)
	case *reservationExpiry:
		s.onReservationTimeout(ctx, msg)
	case *messages.PinBlocks:
		s.onPin(ctx, msg)
	case *pinExpiry:
		s.onPinExpiry(msg)
	case *messages.FlushBlocks:
		s.onFlush(ctx, msg)
	case *flushed:
		s.onFlushed(ctx, msg)
	case *messages.GetSlots:
		s.onGet(ctx)
	default:
		s.receiveExport(ctx)
	}
	s.answerWaiting(ctx)
}

// onStarted recovers the blocks in the store.
func (s *tierActor) onStarted(ctx actor.Context) {
	s.lifetime, s.cancel = context.WithCancel(context.Background())
	var err error
	if s.tier, err = kv.NewTier(s.Limits, s.Policy); err != nil {
		panic(err)
	}
	s.tier.SetLowerAvailable(s.Below != nil)
	s.reserved, s.locked = make(map[string]*messages.ReserveSlotsResult), make(map[string]*messages.LockBlocksResult)
	s.pins, s.flushes = make(map[string]*replicaPins), make(map[string]*flush)
	held := s.Store.Held()
	for _, h := range held {
		s.tier.Recover(h.Slot, h.Hash, h.Bytes)
	}
	s.Log.Info().Str("tier", s.Name).Int("slabs", s.Limits.Slabs.Count).Int("slab_bytes", s.Limits.Slabs.Bytes).
		Int("held", len(held)).Uint64("incarnation", s.incarnation).Msg("tier started")
	s.announcer, s.exports = kv.NewAnnouncer(announceBytes, knownBytes), make(map[string]*export)
	s.onAnnounceTick(ctx, &announceTick{s.incarnation})
}

func (s *tierActor) onCommit(ctx actor.Context, msg *messages.CommitBlocks) {
	if i, ok := s.findWaiting(msg.GetRequestId()); ok { // the requester gave up
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	r, ok := s.reserved[msg.GetRequestId()]
	if !ok {
		return
	}
	delete(s.reserved, msg.GetRequestId())
	for _, b := range r.GetReserved().GetSlots() {
		if slices.ContainsFunc(msg.GetWritten(), func(h []byte) bool { return bytes.Equal(h, b.GetHash()) }) {
			s.tier.Commit(int32(b.GetIndex()))
		} else {
			s.tier.Abort(int32(b.GetIndex()))
		}
	}
	s.demote(ctx)
}

func (s *tierActor) onLock(ctx actor.Context, msg *messages.LockBlocks) {
	id := msg.GetRequestId()
	if again, ok := s.locked[id]; ok {
		ctx.Respond(again)
		return
	}
	result := &messages.LockBlocksResult{RequestId: id}
	for i := len(msg.GetHashes()) - 1; i >= 0; i-- { // last block first, as policies expect
		h := kv.Hash(msg.GetHashes()[i])
		s.tier.Lookup([]kv.Hash{h})
		if slot, ok := s.tier.Read(h); ok {
			result.Locked = append(result.Locked, &messages.Block{Index: uint32(slot), Hash: msg.GetHashes()[i]})
		}
	}
	if len(result.GetLocked()) > 0 {
		s.locked[id] = result
	}
	ctx.Respond(result)
}

func (s *tierActor) onUnlock(msg *messages.UnlockBlocks) {
	r, ok := s.locked[msg.GetRequestId()]
	if !ok {
		return
	}
	delete(s.locked, msg.GetRequestId())
	for _, raw := range msg.GetDamaged() {
		s.drop(kv.Hash(raw))
	}
	for _, b := range r.GetLocked() {
		s.tier.Done(int32(b.GetIndex()))
	}
}

// drop drops a damaged block.
func (s *tierActor) drop(h kv.Hash) {
	if s.tier.Drop(h) {
		s.damaged++
		s.Log.Warn().Str("tier", s.Name).Msg("damaged block dropped")
	}
}

func (s *tierActor) onSteps(ctx actor.Context, msg *messages.StepsDone) {
	for range min(msg.GetSteps(), maxTicks) {
		s.tier.Tick()
	}
	s.demote(ctx)
}

// maxTicks limits the cost of one message.
const maxTicks = 10_000

func (s *tierActor) status() *messages.SlotsStatus {
	st := s.tier.Stats()
	status := &messages.SlotsStatus{
		Name: s.Name, Slots: uint32(st.Slots), Free: uint32(st.Free), Arriving: uint32(st.Arriving),
		Resident: uint32(st.Resident), Leaving: uint32(st.Leaving), Hits: st.Hits, Misses: st.Misses,
		Arrivals: st.Arrivals, Demotions: st.Demotions, Drops: st.Drops, Damaged: s.damaged,
		Pinned: uint32(st.Pinned), Kept: st.Reclaimed, Lent: s.exported,
		CapacityBytes: uint64(st.CapacityBytes), TakenBytes: uint64(st.TakenBytes), Slabs: uint32(s.Limits.Slabs.Count),
	}
	for _, z := range st.Sizes {
		status.Sizes = append(status.Sizes, &messages.SlotsOfSize{
			BlockBytes: uint64(z.Bytes), Slabs: uint32(z.Slabs), Slots: uint32(z.Slots), Taken: uint32(z.Taken),
		})
	}
	return status
}
