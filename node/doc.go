// Package node is the composition root of a node: it starts devices, store, actors, gateway and
// control service, and shuts them down.
//
//	node
//	├─ devices ─ gpu-0 ─ hbm
//	├─ tiers ─ dram · nvme · remote
//	├─ replicas ─ <model>-<n> ─ engine · adapters ─ slot-0 …
//	├─ router
//	├─ deployments ─ <model>
//	├─ planner
//	├─ gateway ─ session-<id> …
//	├─ usage
//	└─ control
//
// State that must survive the crash of an actor is created here and handed down: devices and the
// models in their memory (residency.Holder), the calls that clients wait for (gateway.Calls), the
// desired state (cluster/store) and the registry of actors (observe/tree).
package node
