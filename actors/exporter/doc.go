// Package exporter is what holders of KV blocks share, the tiers below HBM and the replicas: it
// sends blocks to replicas of other nodes, over the data plane. core/export decides which blocks
// are sent, and for how long they are kept.
//
// It is no actor: an Exporter belongs to one incarnation of the holder's actor, which passes it the
// effects of its export machine, except Lock, Unlock and Drop. The holder receives LeaseBlocks,
// ReleaseBlocks and its own message for each end of a transfer. An Exporter answers with
// LeaseBlocksResult.
//
// A crash of the holder cancels its transfers.
package exporter
