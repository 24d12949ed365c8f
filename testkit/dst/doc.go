// Package dst provides deterministic simulation testing: it runs the actors of several nodes one at
// a time and in virtual time, in an order that a seed determines. The same seed gives the same run,
// so a failure can be reproduced.
//
// The actors and their props are those of the product, composed by node/hierarchy. These seams are
// replaced, and no others:
//
//   - time, timers, jobs, and randomness: World.Runtime, a supervise.Runtime
//   - the order of messages: Dispatcher, a supervise.MailboxSource
//   - links between nodes: Network, with the guarantees of cluster/link
//   - the data plane: plane, with those of cluster/bulk
//   - NATS: a natskv.Server, below cluster/members and cluster/store
//   - disks: an arena, and the files of adapters, which survive their node
//   - devices and engines: Device and Loader, which compute each token from the bytes of the KV blocks
//     and of the adapter that they read
//
// Clients (Call) compare every token with Output. Run injects the faults of a seed, and checks at
// the end that every request has ended and that nothing of it is left.
package dst
