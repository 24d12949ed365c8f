// Package kvblock holds the actors of the KV tiers: HBM, the blocks in the memory of one GPU; those below it, in host memory and on
// disk; and the remote tier, the blocks that other nodes hold.
//
// # HBM
//
// Parent: the gpu actor. Children: none.
// Accepts: AdoptBlocks, BlocksChanged, BlocksResized, BlocksReleased, GetTier.
// Answers: AdoptBlocksResult, TierStatus.
//
// A replica decides which block goes where; this actor remembers what is in them. It sits
// above the replica: when a replica crashes, its successor adopts the blocks and finds every
// prefix that was computed.
//
// What a crash of this actor loses is that memory, and nothing else: the replica goes on, and tells it of
// every later change. What it then holds is less than the truth, never other than the truth.
//
// # A tier below
//
// Parent: the tiers group. Children: none.
// Speaks with: its node's router (TierAnnounced).
// Accepts: ReserveSlots, CommitBlocks, LockBlocks, UnlockBlocks, StepsDone, PinBlocks, FlushBlocks, GetSlots, LeaseBlocks, ReleaseBlocks.
// Answers: ReserveSlotsResult, LockBlocksResult, BlocksMoved, SlotsStatus, LeaseBlocksResult.
//
// It owns a kv.Tier, which says who may use which slot of its store; the bytes are copied by whoever asked. Blocks that leave it are copied
// by its own job to the tier below it, by the same messages. A ReserveSlots that needs a slab of another size waits until what is in that has gone
// down (reservation.go), for so long as its asker waits for an answer; then blocks are dropped instead.
//
// To replicas of other nodes it sends blocks itself (lend.go), over the data plane. They are locked until that has ended, which it does at the
// end of the lease at the latest; so a reader that is lost locks nothing for longer.
//
// What a crash loses are the requests under way, those that wait, and what is pinned until replicas say it again. The store sits above it: the successor finds in it what was written. Copies that
// an earlier life granted may still run then, into slots that are given out again; the store writes one after the other, and a slot
// whose block is not the one that was granted is found out when it is read.
//
// # The remote tier
//
// Parent: the tiers group; one per node. Children: none.
// Speaks with: its node's router (FindBlocks), and with holders of blocks: tiers of other nodes, and other replicas (LeaseBlocks, ReleaseBlocks).
// Accepts: FindBlocks, FetchBlocks, ReleaseBlocks, BlocksFetched, GetSlots.
// Answers: FindBlocksResult, FetchBlocksResult, SlotsStatus.
//
// It owns a kv.Elsewhere: the measured ways to the holders, which of their blocks are known, and the fetches under way, of which it lets no more begin than its
// capacity in bytes has room for; the others wait in turn, and are refused where too many do. The leases at the holders are its own. The bytes never come
// near it: they go from the holder over the data plane to the ticket of whoever asked, who checks each block and says at the end what came.
//
// Two replicas that want the same block at once fetch it each for itself.
//
// What a crash loses are the fetches under way, and what was measured. Those who wait for one are told so, and compute what has not come; the holders are told to
// send no more. The supervisor brings it back with nothing known, and each way is tried with a few blocks again.
package kvblock
