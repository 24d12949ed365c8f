// Package natsd runs a nats-server inside the node: JetStream with a file store, so that one binary is enough. Several such
// servers, joined by routes, are a NATS cluster whose JetStream survives the loss of a minority.
//
// A Server watches the disk of its store. After a write error, as on a full disk, nats-server takes no more writes until
// its streams are opened again: it is started again, on the same ports, once there is space.
//
// Invariants: a Server that Start returned takes connections, and its JetStream has a leader; two servers of a cluster never
// have the same name; what a client was told is stored is on the disks of Replicas() servers.
package natsd
