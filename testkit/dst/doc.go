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
//   - disks: disk, under the File of engine/kvstore, and the files of adapters; both survive their node
//   - devices and engines: Device and Loader, which compute each token from the bytes of the KV blocks
//     and of the adapter that they read
//   - sockets of HTTP clients: socket, which takes the place of net/http's server too
//
// Most requests are HTTP requests (httpClient) to the gateways of the nodes. The tokenizer is that of
// a model of the repository. The client checks each event against the known output: text, tokens,
// log-probabilities, finish reason, and usage. It checks that there is a reason for each error and
// each broken connection. The other requests (Call) go to a session without a gateway, and their
// tokens are compared with Output.
//
// A handler of a request runs in a task of the world, and continues in one whenever it writes to its
// socket or has queried an actor. Between two of them it waits for the output of its calls. Run
// injects the faults of a seed, and checks at the end that every request has ended and that nothing
// of it is left.
package dst
