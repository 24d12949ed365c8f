// Package transfer provides the actor that moves the KV blocks of migrating sequences for a
// replica: it sends blocks over the node's data plane, and opens transfers into reserved blocks.
//
// Parent: a replica. Children: none. Accepts: SendBlocks, CancelSend, OpenSink, AskSink, CloseSink.
// It answers each command except CancelSend with a message to the parent, which the command
// provides. The parent makes all decisions (core/migrate).
//
// It owns the sends and transfers in progress, but no blocks: the parent references the blocks that
// a send reads, and reserves those that a transfer writes. A crash ends all sends and transfers.
// The actor stops only once no block is being read or written, and its next incarnation reports to
// the parent, which can then free the blocks. The parent then ends the migrations, and their
// sequences continue at their sources. Commands for an earlier incarnation are ignored, since the
// parent counts them as lost.
package transfer
