// Package lora decides which adapters are on a device, where in its memory they are, and which
// requests enter a batch with them.
//
// A Layout maps an adapter's matrices into an address space of its own. Pages allocates pages of 2
// MiB for a Layout, in any order, and a Table locates each matrix in these pages. A Pool decides
// which adapters are on the device. It answers requests at once and returns Actions for its caller to
// carry out. Copies in host memory are those of the node, not of a pool (package hostcache). An
// Admission admits waiting requests to a batch, those with a resident adapter first, as the Policy
// says. No request starves. A PinClient represents the pool in a replica, since the pool is another
// actor.
//
// The package never reads a clock: the caller passes the time.
//
// # Adapters of a Pool
//
// The first row that fits an event applies. An event without a row changes nothing and is counted
// by Ignored. If a load has to wait for pages, its victims are chosen at once, and the load starts
// when they are evicted. Loads wait in line.
//
//	event           state                     guard                 next          effects
//	register        unregistered              larger than the pool  same          refuse: too large
//	                unregistered                                    absent        —
//	                registered                being deleted         same          refuse: deleting
//	                registered                                      same          refuse: duplicate
//	                inspecting                                      same          refuse: duplicate
//	inspect         unregistered                                    inspecting    inspect its folder
//	                inspecting                                      same          —
//	                registered                                      same          —
//	inspected       inspecting                larger than the pool  unregistered  lost: too large
//	                inspecting                without requests      absent        —
//	                inspecting                no room               absent        lost: no room
//	                inspecting                                      pending       evict others
//	inspect-failed  inspecting                                      unregistered  lost
//	recover         absent                    its pages are free    idle          —
//	pin             unregistered                                    same          refuse: unknown
//	                registered                being deleted         same          refuse: deleting
//	                evicting                                        same          refuse: no room
//	                absent                    no room               same          refuse: no room
//	                absent                                          pending       hold it; evict others
//	                idle                                            active        hold it
//	                pending, loading, active                        same          hold it
//	                inspecting                                      same          hold it
//	prefetch        absent                    no room               same          ignore
//	                absent                                          pending       evict others
//	pages-free      pending                                         loading       load
//	no-pages        pending                   being deleted         unregistered  lost: no room
//	                pending                                         absent        lost: no room
//	loaded          loading                   with requests         active        ready
//	                loading                   being deleted         evicting      evict
//	                loading                                         idle          —
//	load-failed     loading                   being deleted         unregistered  free its pages; lost
//	                loading                                         absent        free its pages; lost
//	unpin           pending, loading, active  others pin it         same          —
//	                active                    being deleted         evicting      evict
//	                active                                          idle          —
//	                pending                   being deleted         unregistered  cancel the load
//	                pending                                         absent        cancel the load
//	                loading                                         same          —
//	                inspecting                                      same          —
//	chosen          idle                                            evicting      evict
//	evicted         evicting                  being deleted         unregistered  free its pages
//	                evicting                                        absent        free its pages
//	delete          registered                being deleted         same          ignore
//	                absent                                          unregistered  —
//	                pending, loading, active  with requests         same          refuse new requests
//	                pending                                         unregistered  cancel the load
//	                idle                                            evicting      refuse new requests; evict
//	                registered                                      same          refuse new requests
//
// A load fits if the free pages, the pages being evicted and the pages of idle adapters suffice,
// less the pages that earlier loads in line wait for. The least popular adapters are evicted first.
// A prefetch does not evict adapters that were requested within the window or that are more
// popular.
//
// The planner knows which adapters are popular in the cluster. Those that it wants on the device (Want) get
// at least the popularity that they would have with the replica's share of these requests, and are prefetched
// like those that were requested here, into the same pages.
//
// # Pages of a Pool
//
// The number of pages changes while the pool serves. If a pin would evict adapters or be refused, the pool
// first requests the missing pages (Grow), and the load of the pin waits in line for them. If fewer are
// granted, adapters are evicted for the rest; if that does not suffice, the last loads in line are lost with no
// room. After a refusal no pages are requested until Retry.
//
// Shrink makes the pool give back pages: free ones first, then those of idle adapters, the least popular
// first. It gives back pages before any load in line gets some, and those of adapters in use once their
// requests have ended. Granted ends it, with the pages that the pool has then.
//
// # Pins of a PinClient
//
// A request whose pin was refused for lack of room keeps its place: once something is released, it asks
// again with a new pin when it is its turn. Until the pool has answered, requests behind it that may not
// pass it get no adapter, since they would take the room that it asks for. A request gets a new pin for
// another adapter after its pin has ended. An event without a row changes nothing. Commands are queued
// until Drain. Unpins stay queued while a step runs. "Hold" makes the pin hold from the start of the
// pool's new incarnation.
//
//	event         state                guard     next       effects
//	asked         unpinned                       requested  queue pin
//	              may-retry                      retried    queue a new pin
//	answered      requested … retried  granted   granted    —
//	              requested … retried  no room   no-room    —
//	              requested … retried            refused    —
//	ended         requested, retried   not sent  unpinned   take the pin back
//	              requested, retried             cancelled  queue unpin
//	              granted                        released   queue unpin
//	              refused … may-retry            unpinned   —
//	unpin-sent    cancelled, released            unpinned   —
//	room          no-room                        may-retry  —
//	pool-restart  requested, retried             same       queue pin
//	              granted                        same       hold
//	              released                       same       hold; queue unpin
//	              cancelled                      unpinned   —
//
// # Invariants of a Pool
//
// Checked by name in TestInvariants:
//
//   - exclusive: a page belongs to one adapter or is free
//   - conservation: every page is free or belongs to an adapter, and the pages that are free, being
//     evicted or requested suffice for all loads in line
//   - given back: a page that is given back was asked for, and no adapter is in it
//   - shrunk: a shrink is confirmed once, when no more pages than demanded are left
//   - in place: a request that is Ready has its adapter on the device, with all pages, until it
//     unpins
//   - kept: an adapter with a request is neither evicted nor forgotten
//   - ahead: no adapter that was requested within the window is evicted for the planner
//   - answered: a waiting request gets either Ready or Lost, exactly once
//   - in line: the first load in line lacks pages
//   - refused: a refused request holds nothing, and has a reason
//   - ignored: an ignored event changes nothing
//   - nothing left: with no request and no action in flight, no adapter is in use
//
// # Invariants of a PinClient
//
// Checked by name in TestPinInvariants:
//
//   - once: a pin is sent at most once to each incarnation of the pool, and unpinned only after that
//   - granted: a request has its adapter if and only if the pool granted its pin
//   - read: a pin is not ended at the pool while a step reads its adapter
//   - held: after a restart of the pool, the pins whose adapters a step may read hold from the start,
//     and only those that were granted before
//   - users: the users of an adapter are the requests that hold a pin of it, or wait for one
//   - nothing left: once all commands are sent, the pool has the pins of the requests and no others
//
// # Invariants of an Admission
//
// Checked by name in TestAdmissionInvariants, for an Admission, a PinClient and a Pool:
//
//   - at rest: as long as no request comes or ends, no pin or unpin is sent after a few exchanges
//   - served: once requests end, each waiting one is admitted
package lora
