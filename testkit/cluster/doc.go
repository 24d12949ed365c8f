// Package cluster runs real node processes for tests, chaos runs and measurements, and subjects
// them to the faults of real machines: kill, stop, partition, delay, packet loss, restart. Only the
// network cable is simulated.
//
// A Cluster has nodes on loopback, or each on a Host of its own: a network namespace whose only
// interface ends in this process. A Fabric forwards packets between the hosts. Partitions (in one
// or both directions), delays and losses are therefore decisions about a packet, and need neither a
// firewall nor a qdisc. A Load streams completions and compares every answer with that of a run
// without faults: text, token count and finish reason. Leftovers asks the nodes for resources that
// should have been released.
//
// Invariants:
//
//   - Every process has its own data folder, log and process group. It ends with the thread
//     that started it, so a killed harness leaves no processes. Signals are sent only to these
//     groups.
//   - Namespaces and interfaces have no name. They disappear with their last descriptor, which
//     this process holds.
//   - Packets stay between the hosts of one Fabric. The harness dials a host's services from
//     within the host, so a partition never separates a test from its nodes.
package cluster
