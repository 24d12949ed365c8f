// Package offload decides which KV blocks of a replica are copied to the first tier below HBM, and
// when. It also handles the operator's commands for blocks: OffloadBlocks, RestoreBlocks,
// FlushBlocks and pins.
//
// A Machine takes one event at a time and returns Effects, which the caller carries out in order.
// The machine has no access to the pool: Select asks the caller which blocks the pool selects, and
// the caller reports Selected before any other event. Select is the last effect of its event.
//
// # Transitions
//
// The first row that fits an event applies; an event without a row is ignored.
//
//	event     state                   guard       next          effects
//	tick      off                                 same          -
//	          idle                                selectDue     report steps if due; select
//	          copying, paused                     same          report steps if due
//	selected  selectDue … selectUsed  some        copying       copy
//	          selectDue               idle due    selectIdle    select
//	          selectDue, selectIdle   command     selectUnused  select
//	          selectDue, selectIdle               idle          -
//	          selectUnused                        selectUsed    select
//	          selectUsed                          idle          answer the command
//	copied    copying                 stored      idle          finish; count for the command; advance
//	          copying                             paused        finish; set the timer; answer; advance
//	retry     paused                              idle          advance
//	offload   any                     not ready   same          refuse: not ready
//	          any                     impossible  same          refuse: unsupported
//	          idle, copying, paused               same          note the command; advance
//	restore   any                     not ready   same          refuse: not ready
//	          any                     impossible  same          refuse: unsupported
//	          idle, copying, paused               same          prefetch
//	flush     any                     not ready   same          refuse: not ready
//	          any                                 same          flush HBM
//
// A tick first selects the blocks above the watermark. If a step report is due, it then selects the
// idle blocks. For a command it finally selects all blocks, those without readers first.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - one copy: at most one copy is in flight, and each copy is finished once, with all its blocks
//   - bounded: no selection is larger than the burst limit of its tick
//   - order: of a copy's blocks, the one to be evicted first is finished last
//   - paused: after a copy that stored no block, no copy starts before the retry
//   - answered: each command is answered once; a repeated command replaces the requester
//   - counted: an offload command is answered with the number of blocks stored since the command
//     first arrived
//   - steps: the steps reported to the tiers are those that were run, at least 32 at a time
//   - pins: the tiers receive the pins that were loaded last, and none before the first load
//   - ignored: an ignored event changes nothing
package offload
