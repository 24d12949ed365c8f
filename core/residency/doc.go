// Package residency decides which weights are in the memory of a device: when they are loaded, which
// replicas share them, and when they are freed. core/device decides on the memory of each replica
// beside the weights, and when there is memory for both.
//
// A Machine takes events with the current time and returns Effects, which the caller carries out in
// order. It leases the pages of the weights in the ledger of the device, which it shares with
// core/device.
//
// # Copies
//
// A copy is the weights of one content in one layout on one device. Its users are the leases of
// replicas. A replica that ends leaves the copy behind: it stays until its memory is needed. The
// content of a copy is known when its load has ended. Before that, replicas share it if they ask for
// the same digest, or for the same files of the same deployment. If the content turns out to be on
// the device already, the users get the copy that is there.
//
// The first row that fits an event applies; an event without a row is ignored. "All" are the users
// that wait for the load.
//
//	event           state                      guard             next       effects
//	want            absent                                       wanted     count the user
//	                wanted, loading, resident                    same       count the user
//	grant           wanted                                       loading    lease pages; load
//	                loading                                      same       wait for the load
//	                resident                                     same       ready
//	loaded          loading                    already there     releasing  give the users to the other copy; release
//	                loading                    unused            releasing  release
//	                loading                                      resident   ready all
//	load-failed     loading                                      absent     release the pages; fail all
//	recovered       absent                                       resident   lease pages
//	activate        resident                                     same       —
//	standby         resident                                     same       —
//	gone            wanted, loading, resident  others use it     same       discount the user
//	                wanted                                       absent     discount the user
//	                loading                                      same       discount the user
//	                resident                   drop, being read  leaving    discount the user; let the readers end
//	                resident                   to be dropped     releasing  discount the user; release
//	                resident                                     same       discount the user; keep
//	read            resident                   to be dropped     same       ignore
//	                resident                                     same       count the reader
//	read-ended      resident, leaving          was not open      same       ignore
//	                resident                                     same       discount the reader
//	                leaving                    others read it    same       discount the reader
//	                leaving                                      releasing  discount the reader; release
//	overdue         leaving                                      same       revoke readers
//	evict           resident                   in use            same       ignore
//	                resident                   being read        leaving    let the readers end
//	                resident                                     releasing  release
//	drop            resident                   in use            same       revoke readers; drop it once unused
//	                resident                   being read        leaving    revoke readers
//	                resident                                     releasing  release
//	                leaving                                      same       revoke readers
//	released        releasing                                    absent     release the pages
//	release-failed  releasing                                    resident   —
//
// A copy is to be dropped if the fate given by its last user is Drop, Park or ParkOrKeep, if no replica has served
// with it, or if the device was lost or quarantined. A copy that is wanted needs memory, which core/device finds;
// it may evict unused copies for it, those that no deployment wants first, then those that are not read, then those
// unused for longest.
//
// # Readers
//
// A reader copies resident weights, active or standby, to another device of the node or to another node. The
// memory of a copy is not freed while it is read. A copy that must be freed while it is read is leaving: it
// takes no new reader, and its readers may go on for readGrace. Then they are revoked: each ends after the part
// that it copies, and its load uses another source for what is missing. If the device is lost or quarantined,
// they are revoked at once. Readers do not keep a replica from using the copy, and those of an earlier
// incarnation count.
//
// # Levels
//
// The level of weights is how close they are to serving:
//
//	active   a replica serves with them
//	standby  they are on the device, and no replica serves with them
//	parked   they are in the host cache of the node
//	cold     they are on disk
//
// A copy is active or standby. What leaves the device is parked if the host cache has an image of it
// (core/hostcache), and cold otherwise. A copy that is parked by command is copied to the host cache
// before its memory is freed, unless no replica has served with it. One whose deployment goes to sleep
// is parked too, and stays on the device if the host cache has no room for it.
//
// # Invariants
//
// Checked by name in TestInvariants, with jobs that fail, results that arrive late, and restarts:
//
//   - ledger: the pages leased for weights are those of the copies that are loading, resident,
//     leaving or releasing, and no others
//   - in use: a copy with users is never released
//   - being read: a copy is not released before its last reader has ended, and one that leaves takes no
//     new reader
//   - in time: the readers of a copy that leaves are revoked within readGrace and a tick, and those of a
//     copy whose content is lost at once
//   - one load: a copy is loaded once, and all users that wait for it learn how it ended
//   - once: two resident copies never have the same content and layout, unless one of them could not
//     be freed, or was leaving when the actor crashed: it is unused then, and goes when memory is needed
//   - gives back: a load that fails gives back every page, and leaves the other copies
//   - right content: a lease gets weights of the digest that it asked for
//   - in order: of the copies that may go, those that no deployment wants are evicted first, then those
//     that are not read, and then those unused for longest
//   - ignored: an ignored event changes nothing
package residency
