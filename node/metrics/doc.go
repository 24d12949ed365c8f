// Package metrics provides the metrics of a node that no other part registers: those of its KV
// tiers and replicas, which their actors report at each scrape, those of the copies between tiers,
// and those of the Go runtime.
package metrics
