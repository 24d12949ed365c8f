// Package metrics has the metrics of a node that no part of it counts for itself: those of its KV
// tiers and replicas, which their actors answer at each scrape, of the copies between tiers, and of
// Go's runtime.
package metrics
