// Package members says who is in the cluster, and who holds its leases. Both are keys of the KV bucket `troupe-members`:
// members.<name> is a running node, renewed several times a second; leases.<role> names the member that holds a role.
//
// Every node follows every change of the bucket, so what it believes is at hand without a question to anybody. What it
// decides from that belief it writes by compare-and-swap, so that an old belief does no harm.
//
// Invariants:
//   - A member is dead when its key is deleted, and only then: one fact, in one order for everybody. Who is silent is
//     deleted at exactly the revision that was seen last, so a member that is renewed meanwhile lives.
//   - Nobody is suspected by a node that was itself out of touch with NATS just now. A lost server kills nobody.
//     One at whose address nobody listens is no suspect: it is known to be gone.
//   - An id is never used again: a member that was deleted comes back as a new incarnation.
//   - A lease has one holder at a time, a live member. Its revision is its term, and terms grow, even when the bucket is lost
//     and made again: revisions begin at the time it was made.
//   - Revisions of a key are applied in order, whichever way they come.
//
// Keys have no TTL: a server that was away for longer would come back and delete everybody.
package members
