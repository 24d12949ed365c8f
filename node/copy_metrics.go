package node

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"troupe/engine/kvstore"
	"troupe/messages"
)

// copyMetrics counts the copies of blocks between the tiers of this node. It is safe for concurrent
// use.
type copyMetrics struct {
	bytes   *prometheus.CounterVec
	failed  *prometheus.CounterVec
	seconds *prometheus.HistogramVec

	mu     sync.Mutex
	byPath map[[2]string]*messages.KvPath
}

func newCopyMetrics(r prometheus.Registerer) *copyMetrics {
	path := []string{"from", "to"}
	c := &copyMetrics{
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_kv_copied_bytes_total", Help: "Bytes of KV blocks copied from one tier to another.",
		}, path),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_kv_copies_failed_total",
			Help: "KV blocks whose copy from one tier to another failed, was late or was corrupt.",
		}, path),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "troupe_kv_copy_seconds", Help: "Time to copy one KV block from one tier to another.",
			Buckets: prometheus.ExponentialBuckets(10e-6, 2, 18),
		}, path),
		byPath: make(map[[2]string]*messages.KvPath),
	}
	r.MustRegister(c.bytes, c.failed, c.seconds)
	return c
}

// observe counts the copy of a block. It ignores a move that was not started.
func (c *copyMetrics) observe(from, to string, bytes int, m kvstore.Move) {
	if !m.Done && m.Err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.byPath[[2]string{from, to}]
	if p == nil {
		p = &messages.KvPath{From: from, To: to}
		c.byPath[[2]string{from, to}] = p
	}
	if !m.Done {
		c.failed.WithLabelValues(from, to).Inc()
		p.Failed++
		return
	}
	c.bytes.WithLabelValues(from, to).Add(float64(bytes))
	c.seconds.WithLabelValues(from, to).Observe(m.Took.Seconds())
	p.Blocks++
	p.Bytes += uint64(bytes)
	p.Seconds += m.Took.Seconds()
}

// paths returns the pairs of tiers with copies, sorted.
func (c *copyMetrics) paths() (all []*messages.KvPath) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.byPath {
		all = append(all, proto.CloneOf(p))
	}
	slices.SortFunc(all, func(a, b *messages.KvPath) int {
		return cmp.Or(cmp.Compare(a.GetFrom(), b.GetFrom()), cmp.Compare(a.GetTo(), b.GetTo()))
	})
	return all
}

// scrapeTimeout is how long actors may take to answer a scrape.
const scrapeTimeout = time.Second

// kvCollector collects metrics of tiers and replicas from their actors at each scrape. It leaves
// out actors that do not answer.
type kvCollector struct{ node *Node }

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

// Describe implements prometheus.Collector.
func (c kvCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range slices.Concat(kvMetrics, remoteMetrics, adapterMetrics) {
		to <- d
	}
	to <- notFinite
}

// Collect implements prometheus.Collector.
func (c kvCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	if replicas, err := c.node.localReplicas(ctx); err == nil {
		collectHBM(to, replicas)
		collectAdapters(to, replicas)
		collectNotFinite(to, replicas)
	}
	all, err := c.node.Tiers(ctx)
	if err != nil {
		return
	}
	for _, s := range all {
		collectTier(to, s)
	}
	if remote, err := c.node.Remote(ctx); err == nil && remote != nil {
		collectRemote(to, remote)
	}
}

func sendGauge(to chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func sendCounter(to chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
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
		sendGauge(to, kvBlocks, n, hbmName, state)
	}
	sendGauge(to, kvCapacity, capacity, hbmName)
	sendGauge(to, kvTaken, taken, hbmName)
	for d, n := range counts {
		sendCounter(to, d, n, hbmName)
	}
	for labels, n := range restores {
		sendCounter(to, kvRestores, n, labels[0], labels[1])
	}
	for model, n := range overlaps {
		sendCounter(to, kvOverlaps, n, model)
		sendCounter(to, kvAborted, aborted[model], model)
	}
}
