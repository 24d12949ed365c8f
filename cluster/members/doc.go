// Package members tracks the members of the cluster and the holders of its leases. Both are keys of
// the KV bucket `troupe-members`: members.<name> is a running node, which renews its key several
// times a second, and leases.<role> names the member that holds a role.
//
// Every node follows all changes of the bucket and answers queries from this local view. It writes
// decisions by compare-and-swap, so a decision that is based on a stale view fails without harm.
//
// Invariants:
//   - A member is dead if and only if its key is deleted. All nodes see deletions in the same
//     order. A silent member is deleted at exactly the revision last seen, so a member that renews
//     in the meantime survives.
//   - A node that was recently disconnected from NATS does not suspect others, so the loss of a
//     server kills no member. This does not apply to a member whose address refuses connections:
//     it is known to be dead.
//   - Member IDs are never reused. A member that was deleted joins again as a new incarnation.
//   - A lease has at most one holder, a live member. Its revision is its term. Terms grow even if
//     the bucket is lost and recreated, because revisions start at the creation time.
//   - Revisions of a key are applied in order, however they arrive.
//
// The deletion of a member has its last record and the time. A node that joins later learns from it who
// departed before.
//
// Keys have no TTL: a server that was down for longer than a TTL would delete all members when it
// comes back.
package members
