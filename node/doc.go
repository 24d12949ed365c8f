// Package node composes a node: devices, store, actors, gateway and control service. It also shuts it down.
//
//	node
//	├─ devices ─ gpu-0 ─ hbm
//	├─ replicas ─ <model>-<n> ─ engine · adapters ─ slot-0 …
//	├─ deployments ─ <model>
//	├─ gateway ─ session-<id> …
//	├─ usage
//	└─ control
//
// What must outlive an actor is made here and handed down: devices and the models in their memory (residency.Holder), the calls that
// clients wait for (gateway.Calls), the desired state (cluster/store), the register of actors (observe/tree).
package node
