// Package kvblock provides the actors of the KV tiers: HBM, which holds the blocks in the memory of
// one GPU; the tiers below it, in host memory and on disk; and the remote tier, which fetches
// blocks that other nodes hold.
//
// # HBM
//
// Parent: the gpu actor. Children: none. Accepts: AdoptBlocks, BlocksChanged, BlocksResized,
// BlocksReleased, GetTier. Answers: AdoptBlocksResult, TierStatus.
//
// A replica decides which block goes where; this actor remembers what the blocks hold (kv.Contents).
// It survives the replica: after a crash the successor adopts the blocks and finds every prefix that
// was computed.
//
// A crash of this actor loses only that memory. The replica continues and reports every later
// change. The actor then knows fewer blocks than there are, but never wrong ones.
//
// # A tier below HBM
//
// Parent: the tiers group. Children: none. Speaks with: its node's router (TierAnnounced). Accepts:
// ReserveSlots, CommitBlocks, LockBlocks, UnlockBlocks, StepsDone, PinBlocks, FlushBlocks,
// GetSlots, LeaseBlocks, ReleaseBlocks. Answers: ReserveSlotsResult, LockBlocksResult, BlocksMoved,
// SlotsStatus, LeaseBlocksResult.
//
// It is the shell of core/tier, which decides which requester may use which slot of its store. The
// requesters copy the bytes. Blocks that leave the tier are copied to the tier below by a job of
// this actor, with the same messages. A ReserveSlots that needs a slab of another size waits until
// the blocks in it are demoted, for at most half the time that its requester waits. After that,
// blocks are dropped instead.
//
// The actor itself sends blocks to replicas of other nodes, over the data plane, with package
// exporter. The blocks are locked until the transfer ends, at the latest at the end of the lease. A
// lost reader therefore locks nothing for longer.
//
// A crash loses the requests in flight, those that wait, and the pins until replicas repeat them.
// The store survives the actor: the successor finds in it what was written. Copies granted by an
// earlier incarnation may still run into slots that are handed out again. The store serializes the
// writes, and a slot with an unexpected block is detected when it is read.
//
// # The remote tier
//
// Parent: the tiers group; one per node. Children: none. Speaks with: its node's router
// (FindBlocks), and with holders of blocks: tiers and replicas of other nodes (LeaseBlocks,
// ReleaseBlocks). Accepts: FindBlocks, FetchBlocks, ReleaseBlocks, BlocksFetched, GetSlots.
// Answers: FindBlocksResult, FetchBlocksResult, SlotsStatus.
//
// It is the shell of core/remote, which owns the measured paths to the holders, their known blocks,
// and the fetches in flight. Fetches start as long as their bytes fit its capacity. The others wait in
// order, and are refused if too many wait. The remote tier owns the leases at the holders. The
// bytes do not pass through it: they go over the data plane from the holder to the requester's
// ticket. The requester checks each block and finally reports what arrived.
//
// Two replicas that want the same block at once each fetch it.
//
// A crash loses the fetches in flight and the measurements. Requesters are notified and compute the
// missing blocks, and the holders are asked to stop sending. After the restart each path is probed
// with a few blocks again.
package kvblock
