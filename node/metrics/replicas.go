package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"troupe/core/backend"
	"troupe/messages"
)

var (
	replicaRunning = replicaMetric("running_sequences", "Sequences in the batch of a replica.")
	replicaWaiting = replicaMetric("waiting_sequences", "Sequences that wait at a replica.")
	replicaSteps   = replicaMetric("steps_total", "Steps of a replica since its last start.")
	replicaTokens  = replicaMetric("tokens_total",
		"Tokens of a replica since its last start: prompt (computed), cached (found in KV blocks) or output.", "kind")
	replicaPreempted = replicaMetric("preemptions_total",
		"Sequences that were taken out of the batch of a replica to free memory, since its last start.")
	replicaMigrated = replicaMetric("migrated_sequences_total",
		"Sequences that migrated to a replica (in) or from it (out), since its last start.", "direction")
	replicaBlocks = replicaMetric("kv_blocks", "KV blocks of a replica, free (empty or cached) or used.", "state")
	replicaLoads  = replicaMetric("loads_total", "Times that the weights were read for a replica.")

	replicaSimulated = replicaMetric("simulated", "1 for a replica that computes nothing; others have no such metric.")

	replicaMetrics = []*prometheus.Desc{
		replicaRunning, replicaWaiting, replicaSteps, replicaTokens, replicaPreempted, replicaMigrated, replicaBlocks,
		replicaLoads, replicaSimulated,
	}

	modelReplicas = prometheus.NewDesc("troupe_model_replicas",
		"Replicas of a deployment on all nodes, by state, as this node knows.", []string{"model", "state"}, nil)
	modelWanted = prometheus.NewDesc("troupe_model_replicas_wanted",
		"Replicas that a deployment should have, as this node knows.", []string{"model"}, nil)
)

func replicaMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("troupe_replica_"+name, help, append([]string{"model", "replica"}, labels...), nil)
}

// collectReplicas collects the load and the work of the replicas of a node.
func collectReplicas(to chan<- prometheus.Metric, replicas []*messages.ReplicaStatus) {
	for _, r := range replicas {
		gauge := func(d *prometheus.Desc, n uint32, label ...string) {
			sendGauge(to, d, float64(n), append([]string{r.GetModel(), r.GetName()}, label...)...)
		}
		count := func(d *prometheus.Desc, n uint64, label ...string) {
			sendCounter(to, d, float64(n), append([]string{r.GetModel(), r.GetName()}, label...)...)
		}
		gauge(replicaRunning, r.GetRunning())
		gauge(replicaWaiting, r.GetWaiting())
		gauge(replicaBlocks, r.GetKvBlocksFree(), "free")
		gauge(replicaBlocks, r.GetKvBlocks()-r.GetKvBlocksFree(), "used")
		count(replicaSteps, r.GetSteps())
		count(replicaTokens, r.GetTokensIn(), "prompt")
		count(replicaTokens, r.GetTokensCached(), "cached")
		count(replicaTokens, r.GetTokensOut(), "output")
		count(replicaPreempted, r.GetPreemptions())
		count(replicaMigrated, r.GetMigratedIn(), "in")
		count(replicaMigrated, r.GetMigratedOut(), "out")
		count(replicaLoads, r.GetLoads())
		if backend.Kind(r.GetBackend().GetKind()) == backend.Simulated {
			gauge(replicaSimulated, 1)
		}
	}
}

// collectModels collects the numbers of replicas of each deployment that a router knows.
func collectModels(to chan<- prometheus.Metric, view *messages.ClusterView) {
	for _, d := range view.GetDeployments() {
		name, states := d.GetSpec().GetName(), make(map[string]int)
		for _, r := range d.GetReplicas() {
			states[strings.ToLower(strings.TrimPrefix(r.GetState().String(), "REPLICA_STATE_"))]++
		}
		for state, n := range states {
			sendGauge(to, modelReplicas, float64(n), name, state)
		}
		sendGauge(to, modelWanted, float64(d.GetSpec().Wanted()), name)
	}
}
