// Package hierarchy composes the actors of a node: it passes each actor the functions that create
// its children, and adds the middleware that all actors share.
//
//	node
//	├─ devices ─ gpu-0 ─ hbm
//	├─ tiers ─ dram · nvme · remote
//	├─ replicas ─ <model>-<n> ─ engine · copier · adapters ─ slot-0 …
//	├─ router
//	├─ deployments ─ <model>
//	├─ planner
//	├─ gateway ─ session-<id> …
//	├─ usage
//	└─ control
package hierarchy
