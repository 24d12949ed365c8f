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
// socket or has queried an actor. Between two of them it waits for the output of its calls.
//
// Replicas watch their steps, with short bounds (stepWatch): one whose step hangs is faulty, and replaced
// if the step goes on. Canaries of idle replicas take the faults that no request is there to meet.
//
// With Options.Sources, nodes have two devices, and loads copy weights from other devices and nodes. Each
// source takes its own time and has its own faults (fault_sources.go).
//
// Run injects the faults of a seed. These properties are checked all the time, without a message or a
// task of their own:
//
//   - a page of device memory is mapped at one address at most, and is not freed while it is in use
//   - a block that a sequence writes to belongs to no other sequence of the batch
//   - at most one replica of a device runs a step, unless the turn of another one is overdue
//   - one member commands in each term of a deployment, and commands of an older term are refused
//   - an actor knows every message that it receives, and crashes only for an injected reason
//   - what a timer or job of an earlier incarnation reports, or what an actor receives for an earlier
//     incarnation, changes nothing, even if it comes again right after a restart
//   - the jobs of an actor are cancelled when its incarnation ends
//
// In a calm run (Options.Calm), without faults and with commands of operators at most, also:
//
//   - nothing is logged as a warning, and without commands no table ignores an event as unexpected
//   - every request between actors is answered, and every message finds its actor
//   - a replica gets a turn on its device within 1.5 s
//   - no request is refused, the waits for tokens are bounded, and little is computed twice
//
// At the end every request has ended and nothing of it is left; HBM tiers, replicas, devices and
// deployments agree about blocks, leases, states and incarnations; no tier waits for a block; and no
// actor knows a request any longer, except in records of a fixed size.
package dst
