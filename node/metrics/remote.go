package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"troupe/core/kv"
	"troupe/messages"
)

var (
	remoteInFlight = kvMetric("remote_in_flight_bytes", "Bytes of KV blocks in flight from other nodes.")
	remoteFetches  = kvMetric("remote_fetches",
		"Fetches of KV blocks from other nodes, by state: under_way, or waiting for room.", "state")
	remoteRefused = kvMetric("remote_refused_total",
		"Fetches of KV blocks from other nodes that did not get room in time.")
	remoteBlocks = kvMetric("remote_blocks_total",
		"KV blocks requested from another node, by outcome: received, or missed.", "holder", "outcome")
	remoteBytes = kvMetric("remote_bytes_total", "Bytes of KV blocks received from another node.", "holder")
	remoteFirst = kvMetric("remote_first_block_seconds", "Time until the first KV block of a fetch arrived.",
		"holder")
	remoteMetrics = []*prometheus.Desc{
		remoteInFlight, remoteFetches, remoteRefused, remoteBlocks, remoteBytes, remoteFirst,
	}
)

// collectRemote collects the metrics of the remote tier, with holders summed up by node.
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
		sendCounter(to, remoteBlocks, float64(h.GetBlocks()), node, "received")
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

// byNode sums up the counts of holders by their node.
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
