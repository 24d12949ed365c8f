package kvblock

import (
	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/core/kv"
	core "troupe/core/tier"
	"troupe/messages"
)

// hashesOf converts hashes sent by actors of this node, which are well-formed.
func hashesOf(raw [][]byte) []kv.Hash {
	hashes := make([]kv.Hash, len(raw))
	for i, b := range raw {
		hashes[i] = kv.Hash(b)
	}
	return hashes
}

func bytesOf(hashes []kv.Hash) [][]byte {
	raw := make([][]byte, len(hashes))
	for i := range hashes {
		raw[i] = hashes[i][:]
	}
	return raw
}

// actorOf returns the address of an actor, or the zero value for nil.
func actorOf(pid *actor.PID) core.Actor {
	return core.Actor{Address: pid.GetAddress(), ID: pid.GetId()}
}

// reply sends an answer, unless the requester is unknown.
func reply(ctx actor.Context, to core.Actor, answer proto.Message) {
	if to != (core.Actor{}) {
		ctx.Send(actor.NewPID(to.Address, to.ID), answer)
	}
}

func wireSlots(all []core.Slot) []*messages.Block {
	blocks := make([]*messages.Block, len(all))
	for i, s := range all {
		blocks[i] = &messages.Block{Index: uint32(s.Slot), Hash: all[i].Hash[:]}
	}
	return blocks
}

func slotsReserved(e core.AnswerReserve) *messages.ReserveSlotsResult {
	return &messages.ReserveSlotsResult{RequestId: e.ID, Outcome: &messages.ReserveSlotsResult_Reserved{
		Reserved: &messages.SlotsReserved{Slots: wireSlots(e.Slots), Held: bytesOf(e.Held)},
	}}
}

func slotsRefused(e core.RefuseReserve) *messages.ReserveSlotsResult {
	return &messages.ReserveSlotsResult{RequestId: e.ID, Outcome: &messages.ReserveSlotsResult_Refused{
		Refused: &messages.Refused{Reason: messages.Reason_REASON_TOO_LONG, Detail: e.Detail},
	}}
}

// status returns the status of the tier.
func (s *tierActor) status() *messages.SlotsStatus {
	st := s.machine.Stats()
	status := &messages.SlotsStatus{
		Name: s.Name, Slots: uint32(st.Slots), Free: uint32(st.Free), Arriving: uint32(st.Arriving),
		Resident: uint32(st.Resident), Leaving: uint32(st.Leaving), Hits: st.Hits, Misses: st.Misses,
		Arrivals: st.Arrivals, Demotions: st.Demotions, Drops: st.Drops, Damaged: st.Damaged,
		Pinned: uint32(st.Pinned), Kept: st.Reclaimed, Lent: st.Exported,
		CapacityBytes: uint64(st.CapacityBytes), TakenBytes: uint64(st.TakenBytes), Slabs: uint32(st.Slabs),
	}
	for _, z := range st.Sizes {
		status.Sizes = append(status.Sizes, &messages.SlotsOfSize{
			BlockBytes: uint64(z.Bytes), Slabs: uint32(z.Slabs), Slots: uint32(z.Slots), Taken: uint32(z.Taken),
		})
	}
	return status
}
