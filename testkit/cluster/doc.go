// Package cluster runs real node processes for tests, for chaos and for measurements, and does to them what happens to machines: kill,
// stop, partition, delay, loss, restart. Nothing in it is simulated but the cable.
//
// A Cluster is some nodes, on loopback or each on a Host of its own: a network namespace whose only interface ends in this process. A
// Fabric carries packets between the hosts, so a partition, in one direction or both, a delay and a loss are decisions about a packet, and
// need neither a firewall nor a qdisc. A Load keeps completions streaming and holds every answer, to the last character, token and
// finish reason, against that of an undisturbed run. Leftovers asks the nodes what is still there when nothing should be.
//
// Invariants:
//   - Every process has a data folder, a log and a process group of its own; it ends with the thread that started it, so even a
//     killed harness leaves none. Signals go to these groups and to nothing else.
//   - Namespaces and interfaces have no name: they are gone with their last descriptor, that is with this process.
//   - Packets stay between the hosts of one Fabric. The harness dials a host's services from within the host, so a partition never
//     stands between a test and its nodes.
package cluster
