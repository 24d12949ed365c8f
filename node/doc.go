// Package node is the composition root of a node: it starts devices, store, actors, gateway and
// control service, and shuts them down.
//
// Each part is a type of its own, which gets what it uses and not the whole node:
//
//	steps          runs the list of steps: forwards at the start, backwards at the stop
//	gpus, tiers    devices and KV tiers
//	httpd          HTTP for clients and scrapers
//	auditlog       what changes a node
//	bus            NATS: connection and embedded server
//	stored         what the node knows of the stored state: secret, pins, drained nodes
//	availability   whether the store takes changes
//	membership     the nodes of the cluster, and the leases
//	hierarchy      the actors
//	query          the names of the actors, and questions to them
//	backend        requests of the control service
//	metrics        collectors
//	apply          deployments and adapters of the configuration
//	shutdown       drain and stop
//
// The list of steps is in steps.go.
//
// State that must survive the crash of an actor is created here and handed down: devices and the
// models in their memory (residency.Holder), the calls that clients wait for (gateway.Calls), the
// desired state (cluster/store) and the registry of actors (observe/tree).
package node
