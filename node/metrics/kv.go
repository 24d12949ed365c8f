package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"troupe/messages"
)

// HBM is the name of the tier in device memory.
const HBM = "hbm"

var (
	kvBlocks = kvMetric("blocks",
		"KV blocks of a tier, by state. Free ones are empty slots of slabs. In hbm, resident ones have no readers.",
		"tier", "state")
	kvCapacity  = kvMetric("capacity_bytes", "Size of a tier.", "tier")
	kvTaken     = kvMetric("taken_bytes", "Bytes of the KV blocks in a tier.", "tier")
	kvHits      = kvMetric("hits_total", "KV blocks that a prompt needed and the tier had.", "tier")
	kvMisses    = kvMetric("misses_total", "KV blocks that a prompt needed and the tier did not have.", "tier")
	kvArrivals  = kvMetric("arrivals_total", "KV blocks stored in a tier.", "tier")
	kvDemotions = kvMetric("demotions_total", "KV blocks of a tier that the tier below stored or already had.",
		"tier")
	kvDrops = kvMetric("dropped_total",
		"KV blocks of a tier that were evicted, flushed or damaged. For hbm it includes those that a lower tier has.",
		"tier")
	kvDamaged = kvMetric("damaged_total", "KV blocks that were corrupt and were computed again.",
		"tier")
	kvKept     = kvMetric("kept_total", "KV blocks that were used again during their demotion and stayed.", "tier")
	kvRestores = kvMetric("restores_total",
		"Sequences with blocks below hbm, by choice: restored, or avoided because recomputing is faster.",
		"model", "choice")
	kvOverlaps = kvMetric("restores_overlapped_total",
		"Sequences whose prefill ran while their blocks were still being restored.", "model")
	kvAborted = kvMetric("steps_aborted_total",
		"Steps run again because a restore that they waited for failed or was late.", "model")
	kvMetrics = []*prometheus.Desc{
		kvBlocks, kvCapacity, kvTaken, kvHits, kvMisses, kvArrivals, kvDemotions, kvDrops, kvDamaged,
		kvKept, kvRestores, kvOverlaps, kvAborted,
	}
)

func kvMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("troupe_kv_"+name, help, labels, nil)
}

func collectTier(to chan<- prometheus.Metric, s *messages.SlotsStatus) {
	name := s.GetName()
	for state, n := range map[string]uint32{
		"free": s.GetFree(), "arriving": s.GetArriving(), "resident": s.GetResident(),
		"leaving": s.GetLeaving(), "pinned": s.GetPinned(),
	} {
		sendGauge(to, kvBlocks, float64(n), name, state)
	}
	sendGauge(to, kvCapacity, float64(s.GetCapacityBytes()), name)
	sendGauge(to, kvTaken, float64(s.GetTakenBytes()), name)
	for d, n := range map[*prometheus.Desc]uint64{
		kvHits: s.GetHits(), kvMisses: s.GetMisses(), kvArrivals: s.GetArrivals(),
		kvDemotions: s.GetDemotions(), kvDrops: s.GetDrops(),
		kvDamaged: s.GetDamaged(), kvKept: s.GetKept(),
	} {
		sendCounter(to, d, float64(n), name)
	}
}

// collectHBM sums up the HBM usage of the replicas.
func collectHBM(to chan<- prometheus.Metric, replicas []*messages.ReplicaStatus) {
	states, counts := map[string]float64{}, map[*prometheus.Desc]float64{}
	restores, overlaps, aborted := map[[2]string]float64{}, map[string]float64{}, map[string]float64{}
	capacity, taken := 0.0, 0.0
	for _, r := range replicas {
		states["free"] += float64(r.GetKvBlocksFree() - r.GetKvBlocksCached())
		states["resident"] += float64(r.GetKvBlocksCached())
		states["in_use"] += float64(r.GetKvBlocks() - r.GetKvBlocksFree())
		states["pinned"] += float64(r.GetKvBlocksPinned())
		capacity += float64(r.GetKvBlocks()) * float64(r.GetKvBlockBytes())
		taken += float64(r.GetKvBlocks()-r.GetKvBlocksFree()+r.GetKvBlocksCached()) * float64(r.GetKvBlockBytes())
		counts[kvHits] += float64(r.GetKvHits())
		counts[kvMisses] += float64(r.GetKvMisses())
		counts[kvDrops] += float64(r.GetKvEvictions())
		counts[kvDemotions] += float64(r.GetKvOffloaded())
		counts[kvArrivals] += float64(r.GetKvRestored())
		restores[[2]string{r.GetModel(), "restored"}] += float64(r.GetKvRestores())
		restores[[2]string{r.GetModel(), "avoided"}] += float64(r.GetKvRestoresAvoided())
		overlaps[r.GetModel()] += float64(r.GetKvRestoresOverlapped())
		aborted[r.GetModel()] += float64(r.GetKvStepsAborted())
	}
	for state, n := range states {
		sendGauge(to, kvBlocks, n, HBM, state)
	}
	sendGauge(to, kvCapacity, capacity, HBM)
	sendGauge(to, kvTaken, taken, HBM)
	for d, n := range counts {
		sendCounter(to, d, n, HBM)
	}
	for labels, n := range restores {
		sendCounter(to, kvRestores, n, labels[0], labels[1])
	}
	for model, n := range overlaps {
		sendCounter(to, kvOverlaps, n, model)
		sendCounter(to, kvAborted, aborted[model], model)
	}
}
