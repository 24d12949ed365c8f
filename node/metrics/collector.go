package metrics

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"troupe/actors/supervise"
	"troupe/messages"
)

// scrapeTimeout is the maximum time for actors to answer a scrape.
const scrapeTimeout = time.Second

// Source provides the status of a node's devices, replicas, host cache and KV tiers, and its router's view of the
// cluster.
type Source interface {
	// LocalGPUs returns the status of the devices of this node.
	LocalGPUs(ctx context.Context) ([]*messages.GpuStatus, error)
	// LocalReplicas returns the status of the replicas of this node.
	LocalReplicas(ctx context.Context) ([]*messages.ReplicaStatus, error)
	// LocalHostCache returns the status of the host cache of this node; nil if there is none.
	LocalHostCache(ctx context.Context) (*messages.HostCacheStatus, error)
	// Cluster returns the cluster as the router of this node knows it.
	Cluster(ctx context.Context) (*messages.ClusterView, error)
	// Tiers returns the status of the tiers below HBM.
	Tiers(ctx context.Context) ([]*messages.SlotsStatus, error)
	// Remote returns the status of the remote tier, or nil if there is none.
	Remote(ctx context.Context) (*messages.SlotsStatus, error)
}

// Collector collects the metrics of devices, tiers, replicas and the router from their actors at each
// scrape. It omits actors that do not answer.
type Collector struct {
	Source  Source
	Runtime supervise.Runtime
}

// Describe implements prometheus.Collector.
func (c Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range slices.Concat(kvMetrics, remoteMetrics, adapterMetrics, turnMetrics, hostMetrics, demandMetrics,
		deviceMetrics, switchMetrics, replicaMetrics) {
		to <- d
	}
	to <- notFinite
	to <- hungSteps
	to <- canaryFailures
	to <- verified
	to <- waitingToWake
	to <- modelReplicas
	to <- modelWanted
}

// Collect implements prometheus.Collector.
func (c Collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := c.Runtime.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	if replicas, err := c.Source.LocalReplicas(ctx); err == nil {
		collectHBM(to, replicas)
		collectAdapters(to, replicas)
		collectNotFinite(to, replicas)
		collectSteps(to, replicas)
		collectFaults(to, replicas)
		collectReplicas(to, replicas)
	}
	if gpus, err := c.Source.LocalGPUs(ctx); err == nil {
		collectTurns(to, gpus)
		collectDevices(to, gpus)
		collectSwitches(to, gpus)
	}
	if cache, err := c.Source.LocalHostCache(ctx); err == nil {
		collectHostCache(to, cache)
	}
	if view, err := c.Source.Cluster(ctx); err == nil {
		collectWaiting(to, view)
		collectDemand(to, view)
		collectModels(to, view)
	}
	all, err := c.Source.Tiers(ctx)
	if err != nil {
		return
	}
	for _, s := range all {
		collectTier(to, s)
	}
	if remote, err := c.Source.Remote(ctx); err == nil && remote != nil {
		collectRemote(to, remote)
	}
}
