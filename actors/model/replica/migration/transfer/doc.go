// Package transfer provides the actor that moves the KV blocks of migrating sequences for a
// replica: it sends blocks over the node's data plane, and opens transfers into reserved blocks.
//
// Parent: a replica. Children: none. Accepts: SendBlocks, CancelSend, OpenSink, AskSink, CloseSink.
// It answers each but CancelSend with a message to the parent, which the command provides. All
// decisions are the parent's (core/migrate).
//
// It owns the sends and transfers in progress, and no blocks: the parent references the blocks that
// a send reads, and reserves those that a transfer writes. A crash ends them all. The actor stops
// only once no block is being read or written, and its next incarnation reports to the parent, which
// can then free the blocks. The migrations end, and their sequences continue at their sources.
// Commands for an earlier incarnation are ignored, since the parent counts them as lost.
package transfer
