// Package kvblock holds the actors of the KV tiers. Today there is one: HBM, the
// blocks in the memory of one GPU.
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
package kvblock
