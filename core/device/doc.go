// Package device decides what is in the memory of a device: which models are loaded and freed, how
// they share the memory for KV blocks, and which of them have memory for adapters. core/residency
// decides on their weights, which replicas share, and core/hbm which lease gets which pages.
//
// A Memory takes events with the current time and returns Effects, which the caller carries out in
// order. It never touches the memory itself: jobs of the caller load, resize and free it, and
// report when they end.
//
// # Leases
//
// The memory of one replica, without its weights, is a lease. The first row that fits an event
// applies; an event without a row is ignored. "All" are the requests that wait for the load or the unload.
//
//	event           state                 guard             next        effects
//	load            absent … opening      quarantined       same        refuse
//	                absent                                  inspecting  inspect
//	                inspecting … opening  not its owner     same        refuse
//	                inspecting … opening                    same        wait for the load
//	                resident              device lost       same        refuse
//	                resident              not its owner     same        refuse
//	                resident              resizing          same        wait for the resize
//	                resident              another revision  same        refuse
//	                resident                                same        answer
//	                freeing                                 same        refuse, to be retried
//	inspected       inspecting            over budget       absent      refuse all
//	                inspecting                              waiting     count it in the budget
//	inspect failed  inspecting                              absent      refuse all
//	granted         waiting                                 loading     lease pages; load the weights, or join
//	denied          waiting                                 absent      refuse all
//	weights ready   waiting                                 same        note the copy
//	                loading                                 opening     open
//	weights failed  waiting, loading                        absent      release the pages; refuse all
//	loaded          opening                                 resident    answer all
//	load failed     opening                                 absent      release the pages and the weights; refuse all
//	recovered       absent                                  resident    lease pages
//	unload          absent                                  same        answer
//	                inspecting … opening                    same        refuse
//	                resident                                freeing     stop what waits; free once settled
//	                freeing                                 same        wait for the unload
//	settled         resident                                same        —
//	                freeing               still changing    same        —
//	                freeing                                 same        free
//	freed           freeing                                 absent      release the pages; answer all
//	free failed     freeing                                 resident    refuse all
//
// After each event, and every second, the waiting loads are tried, oldest first. A load is granted
// if the pages of the model and of its guaranteed share of KV blocks are free. For that, weights that
// no replica uses are evicted, as core/residency orders them, and then replicas yield KV blocks. A
// load is denied if they cannot yield enough, or have not done so within 5 s. Weights of which the
// deployment was deleted are also evicted if KV memory can use their pages. A load waits
// without a limit while a replica that can yield later is loading.
//
// A lease belongs to the actor that loaded it. Only this actor, and none of its earlier incarnations,
// is answered with the model and the handle that opens its memory.
//
// # KV memory
//
// A resident model has KV memory, which is resized while it serves. Replicas yield blocks to loads
// and to adapters. Free pages are distributed among the replicas after a second without other
// demand for memory.
//
//	event        KV memory          guard                  next      effects
//	opened       unused                                    steady    —
//	reported     steady             wrong number           same      keep the report; notify the replica
//	             steady … resizing                         same      keep the report
//	chosen       steady                                    yielding  ask the replica
//	timed out    yielding           of an earlier attempt  same      ignore
//	             yielding           deadline passed        steady    forget the report; notify the replica
//	             yielding                                  same      ask again
//	shrunk       steady                                    same      notify the replica
//	             yielding           of an earlier attempt  same      notify the replica
//	             yielding                                  resizing  resize
//	             resizing                                  same      —
//	kept         steady                                    same      notify the replica
//	             yielding           of an earlier attempt  same      notify the replica
//	             yielding                                  steady    forget the report; notify the replica
//	             resizing                                  same      —
//	grown        steady                                    resizing  lease pages; resize
//	resized      resizing           of an earlier attempt  same      ignore
//	             resizing                                  steady    release pages; notify the replica; answer
//	not resized  resizing           of an earlier attempt  same      ignore
//	             resizing           cannot be resized      steady    never again; notify the replica; answer
//	             resizing                                  steady    release pages; notify the replica; answer
//	leaving      yielding                                  steady    —
//	             resizing                                  same      refuse the requests that wait
//	             steady … resizing                         same      —
//	closed       steady … resizing                         unused    —
//
// An AskShrink is repeated every 0.5 s, for 5 s. A replica that confirms an AskShrink runs no step
// until it is notified of its number of blocks. The events chosen and grown occur only while no KV
// memory is being changed.
//
// A replica reports whether it is on standby. While it is, it keeps its weights, its workspace, its
// pages for adapters and the minimum of KV blocks that it reports. The other KV memory is taken back
// from it and may be used by others; it gets no free pages. It keeps its place in the budget, with the
// minimum that was counted for it when it was loaded: a load that would leave too little for it is
// refused at that time. So it can serve again without waiting for memory, and what was counted for it
// can always be had back: when it reports that it has returned, it gets its guaranteed share at the
// next tick, from free pages, from unused weights, and from replicas that have more than theirs.
//
// # Adapters
//
// Memory for adapters has a minimum: the pages that were requested, or enough for one adapter. Beyond it,
// pages are added from free memory while the pool of the adapters wants them, and taken back for loads,
// for the first adapters of others, and for replicas that return from standby.
//
//	event          adapters                    guard                  next        effects
//	opened         none                        has pages              leased      —
//	               none                                               same        —
//	adapters       queued, allocating                                 same        wait
//	               none, leased, changing      not resident           same        refuse
//	               leased, recalled, changing                         same        answer
//	               none                                               queued      wait
//	granted        queued                                             allocating  lease pages; allocate
//	denied         queued                                             none        refuse all
//	allocated      allocating                  of an earlier attempt  same        ignore
//	               allocating                                         leased      answer all
//	not allocated  allocating                  of an earlier attempt  same        ignore
//	               allocating                                         none        release the pages; refuse all
//	reported       leased                      may grow               changing    lease pages; change
//	               leased                      needs an answer        same        keep the report; notify the pool
//	               leased, recalled, changing                         same        keep the report
//	chosen         leased                                             recalled    ask the pool
//	timed out      recalled                    of an earlier attempt  same        ignore
//	               recalled                    deadline passed        changing    forget the report; change
//	               recalled                                           same        ask again
//	shrunk         leased                                             same        notify the pool
//	               recalled                    of an earlier attempt  same        notify the pool
//	               recalled                                           changing    change
//	               changing                                           same        —
//	changed        changing                    of an earlier attempt  same        ignore
//	               changing                                           leased      release pages; notify the pool
//	not changed    changing                    of an earlier attempt  same        ignore
//	               changing                    cannot be resized      leased      never again; notify the pool
//	               changing                                           leased      release pages; notify the pool
//	leaving        queued                                             none        refuse all
//	               recalled                                           leased      —
//	               none, allocating                                   same        —
//	               leased, changing                                   same        —
//	closed         none, leased                                       none        —
//
// A pool gets pages first come, first served, after a second without other demand for memory. It gets none that
// KV memory may claim: those that replicas lack of their guaranteed shares, or that all of them together lack
// of the KV reserve. Pages are taken back from replicas of low priority first. Within one priority, pages
// without adapters in use are taken before KV blocks, and the others after them. An AskPool is repeated every
// 0.5 s, for 4.5 s. A pool gives back pages as its adapters become idle. What it has given back is freed when
// it confirms the AskPool, or when the time has passed.
//
// The lease raises opened when it becomes resident, and leaving and closed before and after its
// memory is freed. In turn, KV and adapter memory raise settled for the lease when a change of the
// memory has ended.
//
// # Invariants
//
// Checked by name in TestInvariants, with jobs that fail, results that arrive late and in any order,
// silent replicas, and crashes of the actor:
//
//   - no leak: the leased pages of a replica are those that it uses or that one of its jobs needs,
//     those of weights are the pages of the copies on the device, and all other pages are free
//   - in use: the weights of a replica are on the device, with the content that it asked for, and are
//     freed only when no replica uses them and no other device or node reads them
//   - covered: only leased memory is used
//   - one job: a lease has at most one job of each kind at a time, and no other job while it is
//     loaded or freed
//   - answered: every request is answered once, with the state at that time, unless it is repeated
//     or the actor restarts first
//   - ends: once the jobs have ended, every wait ends, even if no replica answers
//   - owner: only the actor that loaded a lease gets its handle, and no earlier incarnation of it
//   - bounded: a load waits for silent replicas no longer than 5 s and one tick, and a shrink no longer
//     than 5.5 s
//   - asked first: a replica loses a block only after it has confirmed that it does not use the
//     block
//   - guaranteed: no replica is asked for blocks within its guaranteed share or within its reported
//     minimum; no model is loaded with less than its guaranteed share at that time
//   - standby: the KV memory of a replica on standby does not grow
//   - notified: a replica is notified of the number of blocks that it really has, and a pool of that of
//     pages
//   - minimum: no pool is asked for pages of its minimum
//   - given back: only pages for adapters that their pool has given back are freed
//   - last: free pages are given to KV memory and to pools only on a healthy device and while no memory is
//     being loaded or freed, and to pools only those that KV memory may not claim
//   - excluded: no load starts on a quarantined device, and no model is adopted on a lost one
//   - recovered: after a crash the leases are those of the models in memory
//   - in step: a lease has KV memory exactly while its model is resident or being freed
//   - ignored: an ignored event changes nothing
package device
