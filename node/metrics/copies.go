package metrics

import (
	"cmp"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"troupe/engine/kvstore"
	"troupe/messages"
)

// Copies counts the copies of blocks between the tiers of this node. It is safe for concurrent
// use.
type Copies struct {
	bytes   *prometheus.CounterVec
	failed  *prometheus.CounterVec
	seconds *prometheus.HistogramVec

	mu     sync.Mutex
	byPath map[[2]string]*messages.KvPath
}

// NewCopies returns a Copies whose metrics are registered.
func NewCopies(r prometheus.Registerer) *Copies {
	path := []string{"from", "to"}
	c := &Copies{
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

// Observe counts the copy of a block. It ignores a move that was not started.
func (c *Copies) Observe(from, to string, bytes int, m kvstore.Move) {
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

// Paths returns the pairs of tiers with copies, sorted.
func (c *Copies) Paths() (all []*messages.KvPath) {
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
