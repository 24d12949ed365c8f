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
	reservationTimeout = answerTimeout / 2 // for a slab; less than the requester waits for slots
	maxReservations    = 64                // that wait; further ones get no slots
)

// reservation is a ReserveSlots that waits for a slab that is being reassigned to its block size.
type reservation struct {
	asker *actor.PID
	*messages.ReserveSlots
}

// reservationExpiry is a message to self: a reservation has waited for reservationTimeout.
type reservationExpiry struct {
	incarnation uint64
	id          string
}

func (s *tierActor) onReserve(ctx actor.Context, msg *messages.ReserveSlots) {
	id := msg.GetRequestId()
	if again, ok := s.reserved[id]; ok {
		ctx.Respond(again)
		return
	}
	size := int(msg.GetBlockBytes())
	if s.Limits.Slabs.Fit(size) == 0 {
		ctx.Respond(&messages.ReserveSlotsResult{RequestId: id,
			Outcome: &messages.ReserveSlotsResult_Refused{Refused: &messages.Refused{
				Reason: messages.Reason_REASON_TOO_LONG,
				Detail: fmt.Sprintf("blocks of %d bytes do not fit in tier %s (largest block: %d); enlarge the tier",
					size, s.Name, s.Limits.Slabs.Largest()),
			}}})
		return
	}
	if i, ok := s.findWaiting(id); ok {
		s.waiting[i].asker = ctx.Sender()
		return
	}
	result, waits := s.grant(msg)
	if waits && len(s.waiting) < maxReservations {
		s.enqueue(ctx, msg)
	} else {
		ctx.Respond(result)
	}
	s.demote(ctx)
}

// grant reserves slots for the blocks that the tier lacks, as far as possible. waits reports that
// it could reserve none yet, and that the tier has none of the blocks.
func (s *tierActor) grant(msg *messages.ReserveSlots) (result *messages.ReserveSlotsResult, waits bool) {
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
			s.tier.Touch([]kv.Hash{h}) // the requester relies on it
			reserved.Held = append(reserved.Held, raw)
		}
	}
	result = &messages.ReserveSlotsResult{RequestId: id,
		Outcome: &messages.ReserveSlotsResult_Reserved{Reserved: reserved}}
	if len(reserved.GetSlots()) > 0 {
		s.reserved[id] = result
	}
	return result, waits && len(reserved.GetSlots())+len(reserved.GetHeld()) == 0
}

func (s *tierActor) reserve(h kv.Hash, bytes int) (int32, bool) {
	slot, dropped, ok := s.tier.Reserve(h, bytes)
	if len(dropped) > 0 {
		s.Log.Debug().Str("tier", s.Name).Int("blocks", len(dropped)).Str("why", dropped[0].Why).Msg("blocks dropped")
	}
	return slot, ok
}

// enqueue makes a ReserveSlots wait for at most reservationTimeout.
func (s *tierActor) enqueue(ctx actor.Context, msg *messages.ReserveSlots) {
	s.waiting = append(s.waiting, reservation{ctx.Sender(), msg})
	supervise.After(ctx, reservationTimeout, &reservationExpiry{s.incarnation, msg.GetRequestId()})
}

// answerWaiting answers the reservations that no longer wait for a slab.
func (s *tierActor) answerWaiting(ctx actor.Context) {
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
	s.demote(ctx)
}

// findWaiting returns the index of the reservation of a request.
func (s *tierActor) findWaiting(id string) (int, bool) {
	i := slices.IndexFunc(s.waiting, func(r reservation) bool { return r.GetRequestId() == id })
	return i, i >= 0
}

// onReservationTimeout handles a demotion that is too slow, or blocks that are read for too long.
// It answers the reservation as if there were no tier below.
func (s *tierActor) onReservationTimeout(ctx actor.Context, msg *reservationExpiry) {
	if _, waits := s.findWaiting(msg.id); msg.incarnation != s.incarnation || !waits {
		return
	}
	s.Log.Warn().Str("tier", s.Name).Dur("waited",
		reservationTimeout).Msg("slab reassignment timed out; dropping blocks of another size")
	s.tier.SetLowerAvailable(false)
	s.answerWaiting(ctx)
	s.tier.SetLowerAvailable(!s.demoting) // otherwise when the slow demotion ends
}
