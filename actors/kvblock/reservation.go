package kvblock

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/messages"
)

const (
	roomWithin      = askWithin / 2 // a slab is waited for: less than whoever asks for slots waits
	maxReservations = 64            // wait; further ones get no slots
)

// reservation is a ReserveSlots that waits for a slab that is being vacated for its blocks.
type reservation struct {
	asker *actor.PID
	*messages.ReserveSlots
}

// overdue is a note to self: so long a reservation has waited.
type overdue struct {
	incarnation uint64
	id          string
}

func (s *slots) onReserve(ctx actor.Context, msg *messages.ReserveSlots) {
	id := msg.GetRequestId()
	if again, ok := s.reserved[id]; ok {
		ctx.Respond(again)
		return
	}
	size := int(msg.GetBlockBytes())
	if s.Limits.Slabs.Fit(size) == 0 {
		ctx.Respond(&messages.ReserveSlotsResult{RequestId: id, Outcome: &messages.ReserveSlotsResult_Refused{Refused: &messages.Refused{
			Reason: messages.Reason_REASON_TOO_LONG,
			Detail: fmt.Sprintf("blocks of %d bytes do not fit into tier %s, which has slabs for blocks of up to %d; make the tier larger", size, s.Name, s.Limits.Slabs.Largest()),
		}}})
		return
	}
	if i, ok := s.waits(id); ok {
		s.waiting[i].asker = ctx.Sender()
		return
	}
	result, waits := s.grant(msg)
	if waits && len(s.waiting) < maxReservations {
		s.await(ctx, msg)
	} else {
		ctx.Respond(result)
	}
	s.depart(ctx)
}

// grant gives slots to the blocks that are not here, as far as there are any. Where it can give none yet, and no block is here, it says so.
func (s *slots) grant(msg *messages.ReserveSlots) (result *messages.ReserveSlotsResult, waits bool) {
	id, size := msg.GetRequestId(), int(msg.GetBlockBytes())
	reserved := &messages.SlotsReserved{}
	for _, raw := range msg.GetHashes() {
		switch h := kv.Hash(raw); s.tier.State(h) {
		case kv.Absent:
			if slot, ok := s.reserve(h, size); ok {
				reserved.Slots = append(reserved.Slots, &messages.Block{Index: uint32(slot), Hash: raw})
			} else {
				waits = s.tier.Reassigning(size)
			}
		case kv.Resident, kv.Leaving:
			s.tier.Touch([]kv.Hash{h}) // whoever relies on it needs it to stay
			reserved.Held = append(reserved.Held, raw)
		}
	}
	result = &messages.ReserveSlotsResult{RequestId: id, Outcome: &messages.ReserveSlotsResult_Reserved{Reserved: reserved}}
	if len(reserved.GetSlots()) > 0 {
		s.reserved[id] = result
	}
	return result, waits && len(reserved.GetSlots())+len(reserved.GetHeld()) == 0
}

func (s *slots) reserve(h kv.Hash, bytes int) (int32, bool) {
	slot, dropped, ok := s.tier.Reserve(h, bytes)
	if len(dropped) > 0 {
		s.Log.Debug().Str("tier", s.Name).Int("blocks", len(dropped)).Str("why", dropped[0].Why).Msg("blocks dropped")
	}
	return slot, ok
}

// await has a ReserveSlots wait, for a while.
func (s *slots) await(ctx actor.Context, msg *messages.ReserveSlots) {
	s.waiting = append(s.waiting, reservation{ctx.Sender(), msg})
	supervise.After(ctx, roomWithin, &overdue{s.incarnation, msg.GetRequestId()})
}

// admit answers those who wait for no slab any more.
func (s *slots) admit(ctx actor.Context) {
	if len(s.waiting) == 0 {
		return
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(r reservation) bool {
		if s.tier.Reassigning(int(r.GetBlockBytes())) {
			return false
		}
		result, waits := s.grant(r.ReserveSlots)
		if !waits && r.asker != nil {
			ctx.Send(r.asker, result)
		}
		return !waits
	})
	s.depart(ctx)
}

// waits is the reservation of a request, and its index.
func (s *slots) waits(id string) (int, bool) {
	i := slices.IndexFunc(s.waiting, func(r reservation) bool { return r.GetRequestId() == id })
	return i, i >= 0
}

// onOverdue: the tier below is too slow, or blocks are read for too long. Those who wait get what would be theirs if there were no tier below.
func (s *slots) onOverdue(ctx actor.Context, msg *overdue) {
	if _, waits := s.waits(msg.id); msg.incarnation != s.incarnation || !waits {
		return
	}
	s.Log.Warn().Str("tier", s.Name).Dur("waited", roomWithin).Msg("no slab was vacated in time; blocks of another size are dropped")
	s.tier.SetLowerAvailable(false)
	s.admit(ctx)
	s.tier.SetLowerAvailable(!s.moving) // else at the end of what is so slow
}
