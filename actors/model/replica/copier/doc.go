// Package copier provides the actor that copies a replica's KV blocks between HBM, the tiers below
// it and remote holders. It decides nothing: the replica (core/restore, core/offload) says what is
// looked up and what is copied where.
//
// Parent: the replica. Accepts: LookUpBlocks, CopyFoundBlocks, ReleaseFoundBlocks, CopyBlocksDown.
// Answers: LookUpBlocksResult, CopyFoundBlocksResult, CopyBlocksDownResult. Sends: CopierReady and
// FoundBlocksPart to the replica, and the protocols of the tiers and of the remote tier.
//
// A lookup locks its blocks in the tiers until they are copied or released. Copies run in jobs and
// write to blocks that the replica has allocated, part by part. A gate lets a step follow them.
//
// Everything here is in flight. A crash or a stop ends all copies before the next incarnation starts
// and unlocks what was looked up. The replica learns of that from CopierReady: its lookups found
// nothing, and its copies failed. Commands that it sent before name the earlier incarnation and are
// ignored.
package copier
