package node

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"

	"troupe/actors/kvblock"
	"troupe/cluster/bulk"
	"troupe/core/kv"
	"troupe/core/units"
	"troupe/engine/kvstore"
	"troupe/messages"
)

const remoteID = tiersID + "/" + kvblock.RemoteName

// remoteProps is the recipe for the tier of blocks that other nodes hold.
func (n *Node) remoteProps() *actor.Props {
	return kvblock.RemoteProps(
		kvblock.RemoteConfig{Router: n.pid(routerID), Capacity: n.cfg.Tiers.RemoteBytes, Log: n.cfg.Log},
	)
}

// Remote asks the remote tier what it knows and what is on its way; nil where the node fetches nothing from others.
func (n *Node) Remote(ctx context.Context) (*messages.SlotsStatus, error) {
	if n.cfg.Tiers.LocalOnly {
		return nil, nil
	}
	s, err := ask[*messages.SlotsStatus](ctx, n, remoteID, &messages.GetSlots{RequestId: kvblock.RemoteName})
	if err != nil {
		return nil, fmt.Errorf("tier %s: %w", kvblock.RemoteName, err)
	}
	return s, nil
}

// remoteStats are the remote tier's part of kv.stats.
func remoteStats(s *messages.SlotsStatus) *messages.KvTier {
	return &messages.KvTier{
		Detail: fmt.Sprintf("what other nodes hold; %s may come at once",
			units.FormatBytes(int64(s.GetCapacityBytes()))),
		SlotBytes: bulk.MaxChunkBytes - kvstore.SealBytes, Slots: s,
	}
}

var (
	remoteInFlight = kvMetric("remote_in_flight_bytes", "KV blocks on their way here from other nodes.")
	remoteFetches  = kvMetric("remote_fetches",
		"Fetches of KV blocks from other nodes, by state: under_way, or waiting for room.", "state")
	remoteRefused = kvMetric("remote_refused_total",
		"Fetches of KV blocks from other nodes that there was no room for in time.")
	remoteBlocks = kvMetric("remote_blocks_total",
		"KV blocks that were wanted from another node, by what became of them: came, or missed.", "holder",
		"outcome")
	remoteBytes   = kvMetric("remote_bytes_total", "Bytes of KV blocks that came from another node.", "holder")
	remoteFirst   = kvMetric("remote_first_block_seconds", "Time until the first KV block of a fetch came.", "holder")
	remoteMetrics = []*prometheus.Desc{
		remoteInFlight,
		remoteFetches,
		remoteRefused,
		remoteBlocks,
		remoteBytes,
		remoteFirst,
	}
)

// collectRemote reports the remote tier; holders by the node that they are of.
func collectRemote(to chan<- prometheus.Metric, s *messages.SlotsStatus) {
	sendGauge(to, kvBlocks, float64(s.GetResident()), s.GetName(), "resident")
	sendGauge(to, kvBlocks, float64(s.GetArriving()), s.GetName(), "arriving")
	sendGauge(to, kvCapacity, float64(s.GetCapacityBytes()), s.GetName())
	sendCounter(to, kvHits, float64(s.GetHits()), s.GetName())
	sendCounter(to, kvMisses, float64(s.GetMisses()), s.GetName())
	sendCounter(to, kvArrivals, float64(s.GetArrivals()), s.GetName())
	sendGauge(to, remoteInFlight, float64(s.GetTakenBytes()))
	sendGauge(to, remoteFetches, float64(s.GetFetches()), "under_way")
	sendGauge(to, remoteFetches, float64(s.GetWaiting()), "waiting")
	sendCounter(to, remoteRefused, float64(s.GetRefused()))
	for node, h := range byNode(s.GetHolders()) {
		sendCounter(to, remoteBlocks, float64(h.GetBlocks()), node, "came")
		sendCounter(to, remoteBlocks, float64(h.GetMissed()), node, "missed")
		sendCounter(to, remoteBytes, float64(h.GetBytes()), node)
		count, buckets := uint64(0), map[float64]uint64{}
		for i, n := range h.GetLatencies() {
			if count += n; i < len(kv.LatencyBounds()) {
				buckets[kv.LatencyBounds()[i].Seconds()] = count
			}
		}
		to <- prometheus.MustNewConstHistogram(remoteFirst, count, h.GetLatencySeconds(), buckets, node)
	}
}

// byNode adds up what is counted of the holders of each node.
func byNode(holders []*messages.HolderStatus) map[string]*messages.HolderStatus {
	all := make(map[string]*messages.HolderStatus)
	for _, h := range holders {
		sum := all[h.GetNode()]
		if sum == nil {
			sum = &messages.HolderStatus{Latencies: make([]uint64, len(h.GetLatencies()))}
			all[h.GetNode()] = sum
		}
		sum.Blocks, sum.Missed, sum.Bytes = sum.Blocks+h.GetBlocks(), sum.Missed+h.GetMissed(), sum.Bytes+h.GetBytes()
		sum.LatencySeconds += h.GetLatencySeconds()
		for i, n := range h.GetLatencies() {
			sum.Latencies[i] += n
		}
	}
	return all
}
