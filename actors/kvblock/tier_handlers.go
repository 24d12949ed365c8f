package kvblock

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/exporter"
	"troupe/actors/supervise"
	"troupe/core/export"
	"troupe/core/kv"
	core "troupe/core/tier"
	"troupe/messages"
)

const (
	announceInterval = 300 * time.Millisecond
	retryDelay       = 100 * time.Millisecond // RetryAfter of refusals that are expected to end soon
)

// Messages to self. A message of an earlier incarnation is dropped.
type (
	announceTick      struct{ incarnation uint64 }
	reservationExpiry struct {
		incarnation uint64
		id          string
	}
	pinExpiry struct {
		incarnation uint64
		replica     string
		version     uint64
	}
	demoteDone struct {
		incarnation uint64
		outcomes    []core.Outcome // outcome of each block
		err         error
	}
	retryDemote struct{ incarnation uint64 }
	exportDone  struct {
		incarnation uint64
		id          string
		damaged     []kv.Hash
		fault       string
	}
	flushed struct {
		incarnation uint64
		id          string
		err         error
	}
)

// onStarted recovers the blocks in the store.
func (s *tierActor) onStarted(ctx actor.Context) {
	s.lifetime, s.cancel = context.WithCancel(context.Background())
	s.machine = core.New(s.machineConfig())
	held := s.Store.Held()
	for _, h := range held {
		s.machine.Recover(h.Slot, h.Hash, h.Bytes)
	}
	incarnation := s.incarnation
	s.exporter = exporter.New(exporter.Config{
		Plane: s.DataPlane, Source: exporter.StoreSource{Store: s.Store}, Life: s.lifetime, Log: s.Log,
		Ended: func(id string, damaged []kv.Hash, fault string) any {
			return &exportDone{incarnation, id, damaged, fault}
		},
	})
	s.Log.Info().Str("tier", s.Name).Int("slabs", s.Limits.Slabs.Count).Int("slab_bytes", s.Limits.Slabs.Bytes).
		Int("held", len(held)).Uint64("incarnation", s.incarnation).Msg("tier started")
	s.onAnnounceTick(ctx, &announceTick{s.incarnation})
}

func (s *tierActor) machineConfig() core.Config {
	lending := export.Config{Name: "tier " + s.Name, MaxBytes: s.Store.SlotBytes(), RetryAfter: retryDelay}
	if s.DataPlane == nil {
		lending.Unsupported = "it has no data plane"
	}
	return core.Config{
		Name: s.Name, Limits: s.Limits, Policy: s.Policy, Lower: s.Below != nil, Router: s.Router != nil,
		Export: lending,
	}
}

func (s *tierActor) onReserve(ctx actor.Context, msg *messages.ReserveSlots) {
	s.perform(ctx, s.machine.Reserve(msg.GetRequestId(), actorOf(ctx.Sender()), hashesOf(msg.GetHashes()),
		int(msg.GetBlockBytes())))
}

func (s *tierActor) onCommit(ctx actor.Context, msg *messages.CommitBlocks) {
	s.perform(ctx, s.machine.Commit(msg.GetRequestId(), hashesOf(msg.GetWritten())))
}

func (s *tierActor) onReservationExpiry(ctx actor.Context, msg *reservationExpiry) {
	if msg.incarnation == s.incarnation {
		s.perform(ctx, s.machine.ReservationTimeout(msg.id))
	}
}

func (s *tierActor) onLock(ctx actor.Context, msg *messages.LockBlocks) {
	s.perform(ctx, s.machine.Lock(msg.GetRequestId(), actorOf(ctx.Sender()), hashesOf(msg.GetHashes())))
}

func (s *tierActor) onUnlock(ctx actor.Context, msg *messages.UnlockBlocks) {
	s.perform(ctx, s.machine.Unlock(msg.GetRequestId(), hashesOf(msg.GetDamaged())))
}

func (s *tierActor) onSteps(ctx actor.Context, msg *messages.StepsDone) {
	s.perform(ctx, s.machine.StepsDone(int(msg.GetSteps())))
}

func (s *tierActor) onDemoteDone(ctx actor.Context, msg *demoteDone) {
	if msg.incarnation == s.incarnation {
		s.perform(ctx, s.machine.CopyEnded(msg.outcomes, msg.err != nil))
	}
}

func (s *tierActor) onRetryDemote(ctx actor.Context, msg *retryDemote) {
	if msg.incarnation == s.incarnation {
		s.perform(ctx, s.machine.Retry())
	}
}

func (s *tierActor) onPin(ctx actor.Context, msg *messages.PinBlocks) {
	s.perform(ctx, s.machine.Pin(msg.GetReplica(), hashesOf(msg.GetHashes())))
}

func (s *tierActor) onPinExpiry(ctx actor.Context, msg *pinExpiry) {
	if msg.incarnation == s.incarnation {
		s.perform(ctx, s.machine.PinsTimeout(msg.replica, msg.version))
	}
}

func (s *tierActor) onFlush(ctx actor.Context, msg *messages.FlushBlocks) {
	s.perform(ctx, s.machine.Flush(msg.GetRequestId(), actorOf(ctx.Sender())))
}

func (s *tierActor) onFlushed(ctx actor.Context, msg *flushed) {
	if msg.incarnation != s.incarnation {
		return
	}
	fault := ""
	if msg.err != nil {
		fault = msg.err.Error()
	}
	s.perform(ctx, s.machine.Erased(msg.id, fault))
}

func (s *tierActor) onLease(ctx actor.Context, msg *messages.LeaseBlocks) {
	s.perform(ctx, s.machine.Lease(exporter.RequestOf(ctx.Sender(), msg)))
}

func (s *tierActor) onRelease(ctx actor.Context, msg *messages.ReleaseBlocks) {
	s.perform(ctx, s.machine.Release(msg.GetRequestId()))
}

func (s *tierActor) onExported(ctx actor.Context, msg *exportDone) {
	if msg.incarnation == s.incarnation {
		s.perform(ctx, s.machine.ExportEnded(msg.id, msg.damaged, msg.fault))
	}
}

// onAnnounceTick announces to the router which blocks changed.
func (s *tierActor) onAnnounceTick(ctx actor.Context, msg *announceTick) {
	if msg.incarnation == s.incarnation {
		supervise.After(ctx, announceInterval, msg)
		s.perform(ctx, s.machine.Announce(false))
	}
}

// onGet answers with the status. If the router asks, it also sends an announcement of all blocks.
func (s *tierActor) onGet(ctx actor.Context) {
	ctx.Respond(s.status())
	if s.Router != nil && s.Router.Equal(ctx.Sender()) {
		s.perform(ctx, s.machine.Announce(true))
	}
}
