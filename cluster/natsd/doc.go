// Package natsd runs a nats-server inside the node: JetStream with a file store, so that one binary
// is enough. Several such servers, connected by routes, form a NATS cluster whose JetStream survives
// the loss of a minority.
//
// A Server watches the disk of its store. After a write error, for example on a full disk,
// nats-server accepts no more writes until its streams are opened again. The Server therefore
// restarts it, on the same ports, once there is space.
//
// Invariants:
//   - A Server that Start returned accepts connections, and its JetStream has a leader.
//   - No two servers of a cluster have the same name.
//   - Data that was acknowledged to a client is on the disks of a majority of Replicas() servers.
package natsd
