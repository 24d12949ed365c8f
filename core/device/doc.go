// Package device decides what is in the memory of a device: which models are loaded and freed, how
// they share the memory for KV blocks, and which of them have memory for adapters. core/hbm decides
// who gets which page.
//
// A Memory is fed events with the time and returns Effects, which its caller carries out in order.
// It never sees a byte: jobs of the caller load, resize and free the memory, and report their end.
//
// # Leases
//
// The memory of one model is a lease. The first row that fits an event applies; an event without a
// row is ignored. All: the requests that wait for the load, or for the unload.
//
//	event           state                 guard             next        effects
//	load            absent … loading      quarantined       same        refuse
//	                absent                                  inspecting  inspect
//	                inspecting … loading                    same        wait for the load
//	                resident              device lost       same        refuse
//	                resident              resizing          same        wait for the resize
//	                resident              another revision  same        refuse
//	                resident                                same        answer
//	                freeing                                 same        refuse, to be retried
//	inspected       inspecting            over budget       absent      refuse all
//	                inspecting                              waiting     count it in the budget
//	inspect failed  inspecting                              absent      refuse all
//	granted         waiting                                 loading     lease pages; load
//	denied          waiting                                 absent      refuse all
//	loaded          loading                                 resident    answer all
//	load failed     loading                                 absent      release the pages; refuse all
//	recovered       absent                                  resident    lease pages
//	unload          absent                                  same        answer
//	                inspecting … loading                    same        refuse
//	                resident                                freeing     stop what waits; free once settled
//	                freeing                                 same        wait for the unload
//	settled         resident                                same        —
//	                freeing               still changing    same        —
//	                freeing                                 same        free
//	freed           freeing                                 absent      release the pages; answer all
//	free failed     freeing                                 resident    refuse all
//
// After each event, and every second, the loads that wait are tried, oldest first. Granted: the pages
// of the model and of its guaranteed share of KV blocks are free. Denied: they are not, and no replica
// can yield enough, or none has within 5 s. A load waits without a limit while a replica loads that
// can yield later.
//
// # KV memory
//
// A resident model has KV memory, which is resized while it serves. Replicas yield blocks to a load
// or to adapters; free pages are distributed after a second without other demand.
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
// An AskShrink is repeated every 0.5 s, for 5 s. A replica that confirms it runs no step until it
// learns its number of blocks. Chosen and grown are decided only while no KV memory is being changed.
//
// # Adapters
//
//	event          adapters                  guard                  next        effects
//	opened         none                      has pages              leased      —
//	               none                                             same        —
//	adapters       queued, allocating                               same        wait
//	               none, leased              not resident           same        refuse
//	               leased                                           same        answer
//	               none                                             queued      wait
//	granted        queued                                           allocating  lease pages; allocate
//	denied         queued                                           none        refuse all
//	allocated      allocating                of an earlier attempt  same        ignore
//	               allocating                                       leased      answer all
//	not allocated  allocating                of an earlier attempt  same        ignore
//	               allocating                                       none        release the pages; refuse all
//	leaving        queued                                           none        refuse all
//	               none, allocating, leased                         same        —
//	closed         none, leased                                     none        —
//
// Opened, leaving and closed come from the lease: when it becomes resident, and before and after its
// memory is freed. Settled goes the other way: no job changes the memory now.
//
// # Invariants
//
// Checked by name in TestInvariants, with jobs that fail, results that arrive late and in any order,
// silent replicas, and crashes of the actor:
//
//   - no leak: the leased pages of a model are those that it uses, or that a job of it needs; all
//     other pages are free
//   - covered: no memory is used that is not leased
//   - one job: a lease has one job of a kind at a time, and no other beside a load or the freeing
//   - answered: every request is answered once, with what is true then, unless it is repeated or the
//     actor restarts meanwhile
//   - ends: when the jobs end, every wait ends, although no replica answers
//   - bounded: a load waits for silent replicas no longer than 5 s and one tick, and a shrink no longer
//     than 5.5 s
//   - asked first: a replica loses no block before it confirmed that it does not use it
//   - guaranteed: no replica is asked for blocks of its guaranteed share, or of the minimum that it
//     reported; no model is loaded with less than its share at that time
//   - notified: the number of blocks that a replica learns is the one that it has
//   - last: free pages go to KV memory only while no memory is loaded or freed, on a healthy device
//   - excluded: no load starts on a quarantined device, and no model on a lost one is adopted
//   - recovered: after a crash the leases are those of the models in memory
//   - in step: a lease has KV memory exactly while its model is resident or being freed
//   - ignored: an ignored event changes nothing
package device
