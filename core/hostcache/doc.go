// Package hostcache decides which images of weights and adapters a node keeps in page-locked host
// memory, or on a local disk. An image has the content of a model or an adapter in the layout of the
// device, so a load from it is a plain copy. Memory and disk have a machine each, and budgets of their
// own.
//
// A Machine takes events and returns Effects, which the caller carries out in order. The memory
// itself belongs to an object above the actors; a restarted actor tells its machine with Recovered
// what is there.
//
// # Transitions
//
// These are the states of one image. The first row that fits an event applies; an event without a
// row is ignored. "In use" are images that a copy to a device reads.
//
//	event      state           guard            next     effects
//	fill       absent          no room          same     refuse
//	           absent                           filling  evict others; reserve
//	           ready                            same     note the use
//	filled     filling         already there    absent   attach its names to the other; free; proceed
//	           filling                          ready    name it by its content; proceed
//	           revoked         in use           same     ignore
//	           revoked                          absent   free
//	failed     filling                          absent   free; proceed
//	           revoked         in use           same     ignore
//	           revoked                          absent   free
//	open       ready                            same     count the reader; note the use
//	close      ready           was not open     same     ignore
//	           revoked         was not open     same     ignore
//	           ready                            same     discount the reader; evict if over the budget
//	           revoked         others use it    same     discount the reader
//	           revoked                          absent   free
//	pin        filling, ready                   same     —
//	unpin      filling, ready                   same     evict if over the budget
//	await      filling                          same     note the waiter
//	name       filling, ready                   same     attach the name
//	forget     filling, ready  has other names  same     —
//	           filling                          revoked  proceed
//	           ready           in use           revoked  —
//	           ready                            absent   free
//	revoke     filling                          revoked  proceed
//	           ready           in use           revoked  —
//	           ready                            absent   free
//	recovered  absent                           ready    —
//
// The content of an image may be known only when it is filled. Until then its key has a name that
// the caller has chosen; then it is renamed. If the cache has an image with this content already, the
// new one is freed.
//
// An image is revoked when its content was found damaged or is no longer that of its files. It
// serves no new reader, and its memory is freed once nothing uses it.
//
// # Adapters
//
// Images of adapters have names, since the content of an adapter is not known before it is read either. A load
// finds an image by its name. If the image is being filled, the load waits (await) until that has ended, and
// asks again. Two names of one content have one image. A name belongs to one image. It ends when the image is
// freed or revoked, or when it is forgotten because its adapter was deleted. An image that loses its last name
// is revoked.
//
// # Eviction
//
// Room for an image is made by evicting others that are ready, not in use and not pinned, the least
// recently used first. If all of them would not be enough, nothing is evicted and the image is
// refused, with the bytes that are pinned and in use.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - ledger: Used is the sum of the bytes of the images that are there
//   - budget: Used exceeds the budget only while images that are pinned, in use, being filled or
//     revoked do
//   - kept: an image that is pinned, in use or being filled is not freed, unless it is revoked; one
//     in use is not freed at all
//   - in order: no image is evicted while one that may go was used less recently
//   - whole: a refused image evicts nothing
//   - possible: an image is refused only if evicting all that may go would not make room
//   - once: the memory of an image is reserved once, and freed once
//   - no damage: a revoked image gets no new reader
//   - one content: two images that are not being filled never have the same key
//   - named: a name belongs to one image, which is being filled or ready, until it is forgotten
//   - unused: an image whose last name was forgotten serves no new reader
//   - proceed: a waiter proceeds exactly once, when its image is no longer being filled
//   - ignored: an ignored event changes nothing
package hostcache
