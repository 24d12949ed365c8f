// Package copier provides the actor that copies a replica's KV blocks between HBM, the tiers below
// it and remote holders. It makes no decisions: the replica (core/restore, core/offload) decides
// which blocks are looked up and where blocks are copied.
//
// Parent: the replica. Accepts: LookUpBlocks, CopyFoundBlocks, ReleaseFoundBlocks, CopyBlocksDown.
// Answers: LookUpBlocksResult, CopyFoundBlocksResult, CopyBlocksDownResult. Sends: CopierReady and
// FoundBlocksPart to the replica, and the protocols of the tiers and of the remote tier.
//
// A lookup locks its blocks in the tiers until they are copied or released. Copies run in jobs and
// write to blocks that the replica has allocated, part by part. With a gate, a step can wait for
// each part.
//
// The actor has no state but its lookups and copies in flight. A crash or a stop ends all copies
// before the next incarnation starts, and unlocks the blocks that were looked up. The replica
// learns of the restart from CopierReady: it then treats its lookups as empty and its copies as
// failed. Commands that it sent earlier name the previous incarnation and are ignored.
package copier
