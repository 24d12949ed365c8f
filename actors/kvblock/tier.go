package kvblock

import (
	"bytes"
	"context"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/engine/tier"
	"troupe/messages"
)

// TierConfig describes a tier below HBM. It is fixed for the life of the actor and shared by its restarts.
type TierConfig struct {
	Name   string // "dram"
	Store  tier.Store
	Limits kv.TierLimits // Slabs are the store's, and Below is of that below
	Policy string        // how it evicts; default kv.DefaultPolicy
	Below  *Lower        // nil: the blocks that leave are dropped
	Copied tier.Report   // told of each block that was to be copied down; nil: nobody is
	Router *actor.PID    // told of the blocks, so that others can ask for them; nil: nobody is
	Bulk   Bulk          // nil: no block is sent to others
	Log    zerolog.Logger
}

// Lower is the tier below another.
type Lower struct {
	Name  string
	Tier  *actor.PID
	Store tier.Store
}

// TierProps returns the recipe for a tier below HBM.
func TierProps(cfg TierConfig) *actor.Props {
	var incarnation uint64
	if cfg.Limits.Slabs = cfg.Store.Slabs(); cfg.Policy == "" {
		cfg.Policy = kv.DefaultPolicy
	}
	if cfg.Below != nil {
		cfg.Limits.MaxDemoteBytes = cfg.Below.Store.SlotBytes()
	}
	if cfg.Copied == nil {
		cfg.Copied = func(string, string, int, tier.Move) {}
	}
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &slots{TierConfig: cfg, incarnation: incarnation}
	})
}

type slots struct {
	TierConfig
	incarnation uint64
	life        context.Context // cancelled when this incarnation ends
	end         context.CancelFunc

	tier     *kv.Tier
	reserved map[string]*messages.ReserveSlotsResult // request id -> what it may write to
	waiting  []reservation                           // in the order that they came
	locked   map[string]*messages.LockBlocksResult   // request id -> what it may read
	pins     map[string]*pinned                      // replica -> what it wants to stay
	flushes  map[string]*flush                       // request id -> what is being erased
	due      []kv.Demotion                           // are Leaving, and not being copied yet
	moving   bool                                    // blocks are being copied down, or rest after they could not be
	descents uint64
	damaged  uint64

	news  *kv.Announcer
	loans map[string]*loan // request id -> blocks being sent to another node
	lent  uint64
}

func (s *slots) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		s.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		s.end()
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
	case *departed:
		s.onDeparted(ctx, msg)
	case *rested:
		s.onRested(ctx, msg)
	case *overdue:
		s.onOverdue(ctx, msg)
	case *messages.PinBlocks:
		s.onPin(ctx, msg)
	case *unsaid:
		s.onUnsaid(msg)
	case *messages.FlushBlocks:
		s.onFlush(ctx, msg)
	case *flushed:
		s.onFlushed(ctx, msg)
	case *messages.GetSlots:
		s.onGet(ctx)
	default:
		s.receiveLending(ctx)
	}
	s.admit(ctx)
}

// onStarted takes over what the store holds.
func (s *slots) onStarted(ctx actor.Context) {
	s.life, s.end = context.WithCancel(context.Background())
	var err error
	if s.tier, err = kv.NewTier(s.Limits, s.Policy); err != nil {
		panic(err)
	}
	s.tier.SetLowerAvailable(s.Below != nil)
	s.reserved, s.locked = make(map[string]*messages.ReserveSlotsResult), make(map[string]*messages.LockBlocksResult)
	s.pins, s.flushes = make(map[string]*pinned), make(map[string]*flush)
	held := s.Store.Held()
	for _, h := range held {
		s.tier.Recover(h.Slot, h.Hash, h.Bytes)
	}
	s.Log.Info().Str("tier", s.Name).Int("slabs", s.Limits.Slabs.Count).Int("slab_bytes", s.Limits.Slabs.Bytes).Int("held", len(held)).Uint64("incarnation", s.incarnation).Msg("tier started")
	s.news, s.loans = kv.NewAnnouncer(announceBytes, believedBytes), make(map[string]*loan)
	s.onBeat(ctx, &beat{s.incarnation})
}

func (s *slots) onCommit(ctx actor.Context, msg *messages.CommitBlocks) {
	if i, ok := s.waits(msg.GetRequestId()); ok { // it was given up
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
	s.depart(ctx)
}

func (s *slots) onLock(ctx actor.Context, msg *messages.LockBlocks) {
	id := msg.GetRequestId()
	if again, ok := s.locked[id]; ok {
		ctx.Respond(again)
		return
	}
	result := &messages.LockBlocksResult{RequestId: id}
	for i := len(msg.GetHashes()) - 1; i >= 0; i-- { // as a policy is to be told: the end first
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

func (s *slots) onUnlock(msg *messages.UnlockBlocks) {
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

// drop gives up a block that is not what it should be.
func (s *slots) drop(h kv.Hash) {
	if s.tier.Drop(h) {
		s.damaged++
		s.Log.Warn().Str("tier", s.Name).Msg("damaged block dropped")
	}
}

func (s *slots) onSteps(ctx actor.Context, msg *messages.StepsDone) {
	for range min(msg.GetSteps(), maxTicks) {
		s.tier.Tick()
	}
	s.depart(ctx)
}

// maxTicks bounds what one message can cost.
const maxTicks = 10_000

func (s *slots) status() *messages.SlotsStatus {
	st := s.tier.Stats()
	status := &messages.SlotsStatus{
		Name: s.Name, Slots: uint32(st.Slots), Free: uint32(st.Free), Arriving: uint32(st.Arriving), Resident: uint32(st.Resident),
		Leaving: uint32(st.Leaving), Hits: st.Hits, Misses: st.Misses, Arrivals: st.Arrivals, Departures: st.Demotions, Drops: st.Drops, Damaged: s.damaged,
		Pinned: uint32(st.Pinned), Kept: st.Reclaimed, Lent: s.lent,
		CapacityBytes: uint64(st.CapacityBytes), TakenBytes: uint64(st.TakenBytes), Slabs: uint32(s.Limits.Slabs.Count),
	}
	for _, z := range st.Sizes {
		status.Sizes = append(status.Sizes, &messages.SlotsOfSize{BlockBytes: uint64(z.Bytes), Slabs: uint32(z.Slabs), Slots: uint32(z.Slots), Taken: uint32(z.Taken)})
	}
	return status
}
