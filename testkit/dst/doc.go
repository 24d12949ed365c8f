// Package dst provides deterministic simulation testing: it runs the actors of several nodes one at
// a time and in virtual time, in an order that a seed determines. The same seed gives the same run,
// so a failure can be reproduced. docs/testing.md has the commands, and says how to add a fault or a check.
//
// # What is replaced
//
// The actors and their props are those of the product, from node/hierarchy. These parts of a node are replaced:
//
//   - time, timers, jobs, and randomness: World.Runtime, a supervise.Runtime
//   - the order of messages: Dispatcher, a supervise.MailboxSource
//   - links between nodes: Network, with the guarantees of cluster/link; it also decides whether the address of
//     a node refuses connections
//   - the data plane: plane, with those of cluster/bulk
//   - NATS: a natskv.Server, below cluster/members and cluster/store
//   - disks: disk, under the File of engine/kvstore, and the files of adapters; both survive their node
//   - the time and the order of copies to a KV tier: diskStore for disks, and serialArena for host memory, both
//     with one copy at a time
//   - devices and engines: Device and Loader, which compute each token from the bytes of the KV blocks
//     and of the adapter that they read
//   - sockets of HTTP clients: socket, which takes the place of net/http's server too; the limits of
//     gateway/web apply
//
// These parts repeat code of the product, and must be changed with it:
//
//   - the root actor: Node.props lists its children as Root of node/hierarchy does, with the sessions of calls
//     without a gateway (direct) in the place of the control service
//   - the start of a node: joined.steps has the steps of node/steps.go that need the store or actors, in the
//     same order. Each start and each stop is a task of its own.
//   - the actor system, the gateway and the backends of the control service that it uses: StartNode and
//     openServing; the product creates them in node/start_actors.go
//   - operators: operator stores what the control service would store, and cluster.command and tellDevice send
//     what it would send
//
// These functions and values of the product's props are others here:
//
//   - Devices.SelfTest: Device.selfTest, which takes no time, and fails during FailTests. KVReserve is the same
//     for all devices.
//   - Deployments.Inspect, and that of the gateway: InfoOf, which reads no files
//   - Replicas.CheckFolder: the folder of a model is always there, and unchanged
//   - Replicas.Watch: stepWatch, with shorter bounds than the default
//   - Planner.Leases: plannerLeases, by which a planner may learn late that it no longer leads (LoseLease)
//   - Tiers.MayBeRemote: it reports other nodes only, not other devices
//   - the cluster secret: there is none in the store. The gateway salts with zeros; for prefixes, the secret is
//     unknown.
//   - API keys: those in testdata/keys.yaml, which do not change
//   - Publish, OnCopied and the tree's callback: they do nothing
//
// Left out are:
//
//   - the control service, the audit log, events, the node's own NATS server and its connections (Bus of
//     membership.Changes)
//   - the copies that a node keeps of the store and of the highest term in its data folder (Folder and Copy of
//     store.Config, SeenTerm and TermLimit of members.Config), and OnEvent of members.Config
//   - the configuration file (node/apply), availability, metrics and the recording of requests
//   - Planner: AdapterUses, Adapters, Costs and Options
//   - HostCache: Disk and DiskBudget; and Plane, without Options.Sources
//   - Replicas.AdapterLoaded, Router.Recorder, Deployments.OnWake and OnAwake
//   - the gateway's Draining, Causes, Digests, Image, AdapterServed, Roots, Routes, Origins, BodyBytes,
//     TrustedProxies, Recorder and Audit
//
// # A run
//
// Run starts the nodes, opens calls and injects the faults of a seed, and checks the cluster. About half of
// the calls (directOdds) are HTTP requests (httpClient) to the gateways of the nodes. The tokenizer is that of
// a model of the repository. The client checks each event against the known output: text, tokens,
// log-probabilities, finish reason, and usage. It checks that there is a reason for each error and
// each broken connection. The other calls (Call) go to a session without a gateway, and their
// tokens are compared with the output that Output computes.
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
// Three words name runs with less disturbance:
//
//   - A run is calm (Options.Calm) if its faults are commands of operators at most, because of which nothing
//     may fail.
//   - A calm run is quiet if it has no commands either.
//   - A quiet run is light if it has so few requests (no Options.Busy) that none is sent again, unless its
//     replica drains.
//
// # What is checked
//
// These properties are checked all the time, without a message or a task of their own:
//
//   - a client gets each token of its output once and in order, and no other; all are those of one revision of the
//     model
//   - a request finds cached tokens only in KV blocks that requests with its adapter and its salt have computed
//   - a page of device memory is mapped at one address at most, and is not freed while it is in use
//   - a block that a sequence writes to belongs to no other sequence of the batch
//   - at most one replica of a device runs a step, unless the turn of another one is overdue
//   - one member commands in each term of a deployment, and commands of an older term are refused
//   - only a planner changes assignments, one node in each term, and not over those of a later term; it changes
//     the number of replicas with them
//   - a replica starts, and its model is loaded, only where it is assigned, or was a moment ago
//   - an actor knows every message that it receives, and crashes only for an injected reason
//   - what a timer or job of an earlier incarnation reports, or what an actor receives for an earlier
//     incarnation, changes nothing, even if it comes again right after a restart
//   - the jobs of an actor are cancelled when its incarnation ends
//   - at most maxMailbox messages wait for an actor
//
// In a calm run also:
//
//   - nothing is logged as a warning, and in a quiet one no table ignores an event as unexpected
//   - every message finds its actor, and in a quiet run every request between actors is answered once
//   - in a light run, no request between actors is sent again
//   - a replica gets a turn on its device within 1.5 s
//   - no request is refused, the waits for tokens are bounded, and little is computed twice
//
// At the end every request has ended and nothing of it is left; HBM tiers, replicas, devices and
// deployments agree about blocks, leases, states and incarnations; all routers know the blocks of the replicas
// that serve; no tier waits for a block; and no actor knows a request any longer, except in records of a fixed
// size. Each deployment has assignments, and its replicas are the assigned ones. One planner leads, all planners
// answer, and the plan no longer changes. Then each node serves a request for each model that has active replicas,
// and all is at rest again. The number of replicas of a model has changed its direction once at most since the end
// of the load, and once at most after these requests. With Options.Elastic, it is within its bounds.
//
// # Files
//
// Begin with run.go (Options, Run), node.go (StartNode) and world.go (World).
//
// The world, in which one task runs at a time:
//
//	world.go, workers.go       tasks, virtual time, and the goroutines that run tasks
//	runtime.go, deadline.go    World.Runtime: timers, jobs, random numbers, and contexts with a deadline
//	mailbox.go, fault_hold.go  Dispatcher: mailboxes whose order the seed decides, and actors that are held
//	trace.go                   the hash and the log of what has happened
//
// The seams and the node:
//
//	node.go, membership.go, stop.go  a node: its actors, its start steps, its stop and its crash
//	serving.go, socket.go            its gateway, and the sockets of clients
//	network.go, endpoint.go          links between nodes
//	plane.go                         the data plane
//	disk.go, disk_store.go           a disk, and the KV tier on it
//	device.go                        device memory, and the health of a device
//	engine.go, engine_graphs.go      loads, steps and captures of graphs
//	engine_faults.go                 the pending faults of loads, steps and captures
//	images.go, weights_parts.go      weights in host memory, and those that other nodes read
//	canaries.go                      the verification of loaded weights
//	tokenizer.go, adapter_files.go   the folders of models and adapters
//
// The load, and what clients expect:
//
//	run.go, busy.go, prefixes.go   the options and phases of a run; models; prompts
//	call.go, deadlines.go          calls without a gateway
//	adapters.go                    adapters of models and of calls
//	request.go, http_client.go     HTTP requests, and the clients that send them
//	expect.go, sampling.go         the expected output of a request
//	response.go, refusal.go        checks of responses, and of the reasons for errors
//	clients.go                     all clients of a run, and the limits of their keys
//
// The faults:
//
//	fault.go, fault_*.go                  kinds of faults; for each group what a seed draws, and what is injected
//	inject.go                             injects a fault, and forgets those that did not occur
//	operator.go, operator_adapters.go     what operators store
//	phase_crash.go                        crashes in a phase of a preemption
//	scarce.go                             whether faults left no device or node for a replica
//	shrink.go                             the shortest list of faults that fails
//
// The checks:
//
//	always.go             checks, which collects violations and the state of all checks that always run
//	always_cached.go      whose KV blocks a request uses
//	always_calls.go       the times of tokens
//	always_dead.go        messages that find no actor
//	always_device.go      device memory
//	always_engine.go      the blocks of a batch
//	always_late.go        late messages, which are sent again to each restarted actor
//	always_life.go        jobs of ended incarnations
//	always_log.go         logs
//	always_messages.go    requests, answers and terms
//	always_planner.go     stored assignments
//	always_stale.go       messages of earlier incarnations
//	always_turns.go       turns of replicas
//	check.go              what holds at the end of a run; calls checkRest and the others
//	quiet.go              bounds of calm runs
//	rest.go, rest_*.go    what holds at rest, by part: adapters, agreement, gateways, planner, tiers, weights
//	mentions.go           requests and actors that an actor still knows at rest
//	sometimes.go          rows, states and refusals that runs reach
//	survey.go, counts.go  how often something happened in a run
//
// The tests:
//
//	cluster_test.go                      flags, TestSeeds, TestRegressions with testdata/found.txt
//	scenario_test.go                     runs a scenario with its seeds; most other tests are scenarios
//	rare_test.go, late_test.go           situations that random faults seldom produce
//	quiet_test.go, quiet_rows_test.go    TestQuiet, and its transitions in testdata/quiet.txt
//	sometimes_test.go                    TestMain, and what is not reached, in testdata/unreached.txt
//	world_test.go, socket_test.go,
//	expect_test.go, shrink_test.go       tests of the simulation itself
package dst
