// Package exporter sends KV blocks to replicas on other nodes, over the data plane. Both kinds of
// holders use it: tiers below HBM and replicas. core/export decides which blocks are sent and how
// long they are kept.
//
// An Exporter is not an actor. It belongs to one incarnation of the holder's actor, which passes it
// the effects of its export machine, except Lock, Unlock and Drop. The holder receives LeaseBlocks,
// ReleaseBlocks and, from itself, a message at the end of each transfer. An Exporter answers with
// LeaseBlocksResult.
//
// A crash of the holder cancels its transfers.
package exporter
