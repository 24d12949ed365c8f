// Package metrics provides the metrics of a node that no other part registers: those of its KV
// tiers, replicas and router, which their actors report at each scrape, those of the copies between
// tiers and of the wakes of deployments, and those of the Go runtime.
package metrics
