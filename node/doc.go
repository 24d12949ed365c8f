// Package node composes a node: it starts the devices, the store, the actors, the gateway and the
// control service, and shuts them down.
//
// Each part is a type of its own, which receives only the other parts that it uses:
//
//	steps          runs the list of steps, and undoes it in reverse order at the stop
//	gpus, tiers    devices and KV tiers
//	httpd          HTTP for clients and scrapers
//	auditlog       audit log of changes to the node
//	bus            NATS: connection and embedded server
//	stored         the view of the stored state: secret, pins, drained nodes, adapters
//	availability   whether the store accepts changes
//	membership     the nodes of the cluster, and the leases
//	hierarchy      the actors
//	query          the names of the actors, and queries to them
//	backend        carries out the requests of the control service
//	metrics        collectors
//	apply          applies the deployments and adapters of the configuration
//	shutdown       drains and stops the node
//
// The list of steps is in steps.go.
//
// State that must survive the crash of an actor is created here and passed to the actors: devices
// and the models in their memory (residency.Store), the calls that clients wait for
// (gateway.Calls), the desired state (cluster/store) and the registry of actors (observe/tree).
package node
