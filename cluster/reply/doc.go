// Package reply decides which reply subjects a node answers to.
//
// The permissions of a NATS server apply to the subject of a request, not to its reply subject. A
// node may publish to any subject. If it answered to any reply subject, it would lend its
// permissions to every client. All handlers of a node therefore receive their requests from
// cluster/service, which asks a Guard first.
//
// Invariants of Rule.Allows, checked by the tests:
//   - A reply subject is answered only below an inbox prefix (_INBOX, those of configured users,
//     PeerInbox), or below _R_, which a server uses for replies across accounts.
//   - A subject below NodeInbox is never answered: messages there count as answers of JetStream.
//   - A subject with a wildcard, an empty token, white space or a control character is never
//     answered.
package reply
