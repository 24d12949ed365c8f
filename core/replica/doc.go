// Package replica decides what a replica of a model does: how it starts, which sequences it
// accepts, when it runs a step and how it handles one that crashes, how its KV memory shrinks and
// grows, which adapters it pins, and what it reports.
//
// A Machine owns the batch.Scheduler, which plans the steps, and the kv.Pool under it. It takes
// events with the current time and returns Effects, which the caller carries out in order. It never
// sees a message, a clock or an engine.
//
// The path of a sequence: Submit queues it (sequence.go), Plan puts it into a step, StepDone takes
// its token (step.go), and Emit sends the token to its session. Between steps, core/migrate,
// core/restore and core/offload decide what else happens to the sequence and its blocks.
//
// A simulator ends several steps that only decode at once; see steady.go.
//
// # Life cycle
//
// An event without a row is ignored, in this table and in the others. The first row that fits an
// event applies.
//
//	event           state                 guard           next        effects
//	start           created                               loading     publish; load the weights
//	retry           loading                               same        load the weights
//	                adopting                              same        look up the blocks
//	                starting, confirming  not confirmed   same        publish
//	loaded          loading                               adopting    keep the model; look up the blocks
//	load-refused    loading               not ready yet   same        ignore
//	                loading                               failed      keep the failure; publish
//	adopted         adopting                              starting    start the engine; report KV
//	engine-ready    starting              for standby     standby     publish; report KV; advance
//	                starting              confirmed       serving     publish; report KV; advance
//	                starting                              confirming  —
//	                confirming … saved                    same        see steps
//	confirmed       confirming            for standby     standby     keep it; publish; report KV; advance
//	                confirming            of these files  serving     keep it; publish; report KV; advance
//	                any                                   same        keep it
//	standby         serving                               suspending  keep the level; publish; report KV; advance
//	                suspending, standby   already         same        ignore
//	                any                                   same        keep the level
//	empty           suspending                            standby     publish; report KV
//	activate        suspending, standby                   serving     keep the level; publish; report KV; advance
//	                serving               already         same        ignore
//	                any                                   same        keep the level
//	drain           serving … standby                     draining    publish; advance
//	                any                                   same        advance
//	save            serving … draining                    saving      publish; advance
//	                saving                                same        advance
//	                saved                                 same        answer
//	blocks-saved    saving                not requested   same        ignore
//	                saving                                saved       interrupt all; publish; answer
//	submit          serving … standby     faulty          same        refuse
//	                serving                               same        accept or refuse
//	                suspending            has output      same        accept or refuse
//	                standby               has output      suspending  accept or refuse; publish; report KV; advance
//	                any                                   same        refuse
//	check-folder    confirming … saved                    same        check the folder
//	folder-checked  confirming … saved    changed         same        set the timer; report
//	                confirming … saved                    same        set the timer
//	stop            any                                   stopping    close; interrupt all
//
// # Standby
//
// A replica at level standby keeps its weights, its engine and its adapters, and has no sequences. Its
// KV memory may be taken back but for the blocks of one sequence of full length, which is what it
// needs to serve again at once: Activate waits for no memory and copies nothing. From Suspending on
// the router sends it nothing new. The wanted level outlives restarts of the actor. A crash in
// Suspending interrupts the sequences. Those with output are accepted again, in Standby too, so that no
// stream is lost because of the level; the router sends them here only if no replica serves.
//
// # Steps
//
// One step is in flight at a time. A step that crashes the engine runs again. If it crashes once
// more, its entries run alone, and a sequence that crashes the engine when it runs alone is
// dropped. A crash before the engine began the step counts for none of this.
//
//	event         state                      guard            next       effects
//	engine-up     halted                                      idle       —
//	              running, repeating, alone  before the step  same       repeat the step
//	              running                                     repeating  repeat the step
//	              repeating                                   isolating  advance
//	              alone                      others wait      isolating  interrupt; drop; step ended
//	              alone                                       idle       interrupt; drop; step ended
//	advance       isolating                                   same       —
//	picked        isolating                                   alone      run it
//	exhausted     isolating                                   idle       —
//	plan          idle                       memory shrunk    same       ignore
//	              idle                       saving           same       report preempted; save the blocks
//	              idle                       without a turn   same       need a turn
//	              idle                                        same       interrupt rejected; send pins
//	planned       idle                                        running    report preempted; run the step
//	nothing       idle                                        same       answer a drain
//	step-done     running, repeating, alone  of another step  same       ignore
//	              alone                      others wait      isolating  emit; step ended
//	              running, repeating, alone                   idle       emit; step ended
//	step-aborted  running, repeating, alone  of another step  same       ignore
//	              alone                      others wait      isolating  requeue it; step ended
//	              running, repeating, alone                   idle       requeue it; step ended
//	halt          any                                         halted     —
//
// # Turns
//
// The replicas of a device take turns (core/turns), and a step starts only in a turn. The replica asks
// for one when it has sequences, and plans its step once the turn is granted, so that the plan has what
// came meanwhile. A replica that has the device to itself keeps its turn, also while it has nothing to
// compute, until it is recalled. On standby it holds no turn and asks for none; one that was granted too
// late is ended. A step that crashed runs again in its turn, and so do its entries.
//
// After a restart of the device's actor, a turn ends as if it was recalled, and a request is repeated.
// It is also repeated with each report of the KV memory.
//
//	event      state               guard            next      effects
//	need-turn  none                                 awaiting  ask for it
//	           any                                  same      —
//	repeat     awaiting                             same      ask for it
//	           any                                  same      —
//	granted    awaiting            memory shrunk    none      end it
//	           awaiting            until recalled   open      advance
//	           awaiting                             one step  advance
//	           any                                  same      end it
//	recalled   open                of another turn  same      ignore
//	           open                in a step        recalled  —
//	           open                                 none      end it
//	           any                 not open         same      ignore
//	stepped    one step, recalled  has work         awaiting  end it and ask for another
//	           one step, recalled                   none      end it
//	           any                                  same      —
//	unused     one step                             none      end it
//	           open                on standby       none      end it
//	           awaiting            on standby       none      —
//	           any                                  same      —
//	reset      none                                 same      report it
//	           awaiting                             same      ask for it
//	           held                in a step        recalled  —
//	           held                                 none      end it
//	halt       any                                  none      —
//
// # KV memory
//
// The device takes memory back with Shrink and gives memory with Grow. Once the replica has
// confirmed a shrink, it runs no step until Grow, since the memory is being changed.
//
//	event      state                     guard             next       effects
//	mapped     unmapped                                    whole      report KV; set the timer
//	report-kv  whole, shrinking, shrunk                    same       report KV; set the timer
//	shrink     whole, shrinking, shrunk  of another lease  same       ignore
//	           whole, shrinking, shrunk  too few           same       refuse
//	           whole                                       shrinking  advance
//	           whole, shrinking, shrunk  another attempt   shrinking  advance
//	           shrinking                 in progress       same       ignore
//	           shrunk                                      same       answer
//	release    shrinking                                   same       report preempted
//	unread     shrinking                                   shrunk     report blocks; answer
//	grow       whole, shrinking, shrunk  of another lease  same       ignore
//	           whole, shrinking, shrunk                    whole      advance
//	halt       any                                         unmapped   —
//
// # Adapters
//
// An adapter pool beside the replica decides which adapters are on the device. The replica pins the
// adapters of its sequences and those that the operator pins.
//
//	event          state              guard            next         effects
//	mapped         no adapters        pages leased     starting     start the pool
//	               no adapters        adapters wanted  unleased     —
//	wanted         unleased                            leasing      lease pages; set the timer
//	retry-lease    leasing                             same         lease pages; set the timer
//	leased         unleased, leasing                   starting     start the pool
//	lease-refused  unleased, leasing                   unleased     interrupt those with adapters
//	pool-ready     starting, ready                     ready        send the pins in effect
//	halt           any                                 no adapters  —
//
// # Faults
//
// While a step is in flight, a timer checks once a second how long it has taken. The bound of a step is 20
// times the time that steps of its size have taken, and at least the step timeout; pace.go has the estimate.
// The time for which this process stalled does not count. A step beyond its bound hangs: the replica interrupts
// all sequences and accepts none until the step ends. An idle replica in serving sends itself a canary, a
// request for one token, and compares the token with that of the first canary, or with one that is recorded for
// its weights. A canary that waits for its turn is dropped when a sequence comes, or the replica leaves
// service. After standby a check compares all recorded tokens, one canary after another, as long as no sequence
// comes; otherwise it continues later. A check that has not ended 10 s after standby continues even while
// sequences run: every second step is one of its canaries.
//
// A step begins when it is sent to the engine, so the time for which a replica waits for its turn does
// not count. The device watches the same step as part of a turn (core/turns), with a far shorter bound
// and for the other replicas: when a turn is overdue, they run meanwhile, and nothing else changes. The
// watch here is for the sequences of the replica itself, which are interrupted, and for its deployment,
// which replaces it. The turn of a hung step ends with the step, or when the replica is gone.
//
//	event         state                           guard             next       effects
//	mapped        unwatched                       the watch is on   sound      set the timer
//	              unwatched                                         same       —
//	watch         sound                           the step is late  hung       interrupt all; publish
//	              sound                           a canary is due   same       submit a canary; advance
//	              hung                            hung for long     given up   suspect; publish
//	              sound, hung, given up, corrupt                    same       set the timer
//	step-over     sound                                             same       learn its time
//	              hung, given up                                    sound      learn its time; publish
//	              unwatched, corrupt                                same       —
//	canary-wrong  sound                                             corrupt    interrupt all; suspect; publish
//	halt          any                                               unwatched  —
//
// Each check also sets the timer of the next one. Suspect: the device is tested.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - one step: a step starts only when none is in flight, the engine is ready and the memory is
//     not shrunk; an engine that is ready and has a step in flight was sent that step
//   - turns: a step starts only in a turn that was granted; a turn for one step, or one that was
//     recalled, ends with its step; no turn ends during a step; with running sequences, the replica
//     holds a turn or has asked for one
//   - contiguous: the tokens of a sequence follow those that its session has, without a gap
//   - one end: a sequence ends once, by a finish, an interruption, a drop or a migration, and has
//     no token afterwards
//   - isolated: a sequence is dropped as poison only after the engine crashed in three steps that
//     computed it, the last time alone
//   - reported first: before a step starts that may overwrite blocks, the HBM tier has received the
//     changes of these blocks
//   - serving: sequences are accepted only in serving, and those with output on standby and on the way
//     there, with a confirmed revision
//   - level: a replica whose wanted level is standby does not enter serving, and one in standby has
//     no sequence and runs no step
//   - published: each state that other actors can see is published when it is entered
//   - shrunk: memory is given back only when no block of it is in use
//   - drained: a drain is answered only when no sequence is left
//   - saved: blocks are saved only between steps, once, and from then on no step runs; a save is
//     answered only when no sequence is left
//   - pinned: a pin ends only between two steps
//   - stopped: after Stop there is no step, no token and no accepted sequence
//   - free: when no sequence is left, every block is free
//   - late: a replica becomes faulty only when a step has taken its bound, or a canary failed; from
//     then on it has no sequence until the step ends
//   - check: a check passes only while the replica serves
//   - canary: a canary runs alone, has no session, and is not counted as work of clients
//   - ignored: an ignored event changes nothing
package replica
