// Package kvblock provides the actors of the KV tiers: HBM, which holds the blocks in the memory of
// one GPU; the tiers below it, in host memory and on disk; and the remote tier, which fetches
// blocks that other nodes hold.
//
// # HBM
//
// Parent: the gpu actor. Children: none. Accepts: AdoptBlocks, BlocksChanged, BlocksResized,
// BlocksReleased, GetTier. Answers: AdoptBlocksResult, TierStatus.
//
// The replica decides which block goes where. This actor records what the blocks contain
// (kv.Contents). It survives the replica: after a crash the successor adopts the blocks and finds
// every prefix that was computed.
//
// A crash of this actor loses only this record. The replica continues and reports every later
// change. The restarted actor knows fewer blocks than there are, but never a wrong one.
//
// # A tier below HBM
//
// Parent: the tiers group. Children: none. Speaks with: its node's router (TierAnnounced). Accepts:
// ReserveSlots, CommitBlocks, LockBlocks, UnlockBlocks, StepsDone, PinBlocks, FlushBlocks,
// GetSlots, LeaseBlocks, ReleaseBlocks. Answers: ReserveSlotsResult, LockBlocksResult, BlocksMoved,
// SlotsStatus, LeaseBlocksResult.
//
// The actor drives the machine of core/tier, which decides which requester may use which slot of
// the store. The requesters themselves copy the blocks. A job of this actor copies evicted blocks
// to the tier below, with the same messages. A ReserveSlots that needs a slab of another size waits
// until the blocks in that slab are demoted, for at most half the time that its requester waits.
// After that, the blocks are dropped instead.
//
// The actor itself sends blocks to replicas of other nodes, over the data plane, with package
// exporter. The blocks stay locked until the transfer ends, and never beyond the end of the lease,
// even if the reader is lost.
//
// A crash loses the requests in flight, the waiting ones, and the pins until the replicas repeat
// them. The store survives the actor: the successor finds the blocks that were written. A copy
// granted by an earlier incarnation may still write to a slot that has been granted again. The
// store serializes the writes, and a slot with an unexpected block is detected when it is read.
//
// # The remote tier
//
// Parent: the tiers group; one per node. Children: none. Speaks with: its node's router
// (FindBlocks), and with holders of blocks: tiers and replicas of other nodes (LeaseBlocks,
// ReleaseBlocks). Accepts: FindBlocks, FetchBlocks, ReleaseBlocks, BlocksFetched, GetSlots.
// Answers: FindBlocksResult, FetchBlocksResult, SlotsStatus.
//
// The actor drives the machine of core/remote, which owns the measured paths to the holders, their
// known blocks, and the fetches in flight. Fetches start as long as their bytes fit the capacity of
// the tier. The others wait in order, and are refused if too many wait. The remote tier owns the
// leases at the holders. The blocks do not pass through it: the holder sends them over the data
// plane to the requester's ticket. The requester checks each block and finally reports which blocks
// arrived.
//
// If two replicas need the same block at the same time, each of them fetches it.
//
// A crash loses the fetches in flight and the measurements. Requesters are notified and compute the
// missing blocks, and the holders are asked to stop sending. After the restart, each path is first
// probed with a few blocks.
package kvblock
