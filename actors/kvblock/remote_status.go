package kvblock

import (
	"time"

	"troupe/core/kv"
	"troupe/messages"
)

// status returns the status of the remote tier in the same form as that of other tiers. The tier
// has no slots, so its capacity is the limit on the bytes in flight.
func (r *remoteTier) status(now time.Time) *messages.SlotsStatus {
	st := r.machine.Stats()
	s := &messages.SlotsStatus{
		Name: RemoteName, Resident: uint32(st.Resident), Arriving: uint32(st.Arriving), Hits: st.Hits,
		Misses: st.Misses, Arrivals: st.Hits,
		CapacityBytes: uint64(st.CapacityBytes), TakenBytes: uint64(st.InFlightBytes), Fetches: uint32(st.Active),
		Waiting: uint32(st.Waiting), Refused: st.Refused, Bytes: st.Bytes,
	}
	for _, h := range r.machine.Holders() {
		s.Holders = append(s.Holders, holderStatus(&h, now))
	}
	return s
}

func holderStatus(h *kv.HolderStats, now time.Time) *messages.HolderStatus {
	path := h.Link.Path(h.Name, now)
	return &messages.HolderStatus{
		Name: h.Name, Node: h.Node, Fetches: h.Fetches, Blocks: h.Blocks, Missed: h.Missed, Bytes: h.Bytes,
		FirstSeconds: path.Latency.Seconds(), BytesPerSecond: path.Rate.PerSecond(), Latencies: h.Latencies[:],
		LatencySeconds: h.Latency.Seconds(),
	}
}
