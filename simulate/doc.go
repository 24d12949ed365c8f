// Package simulate runs a cluster on virtual time. It makes no decision itself: it is a thin shell, as
// actors are, over the machines of the product, and the time of each step comes from core/cost.
//
//	core/router, core/route   which replica serves a request
//	core/replica              what a replica accepts, and when it runs a step and reports
//	core/batch                which sequences run in a step, and which are preempted
//	core/kv                   which KV blocks are shared and evicted, and which ones a router knows
//	core/turns                which replica of a device runs next
//	core/deployment           when a replica is started, drained, moved, replaced and stopped
//	core/schedule             where replicas are placed, and how many there are
//	core/planner              when a deployment is scaled, or put to sleep
//	core/cost                 how long steps take, and what replicas can carry
//	core/device, core/hbm,    what is in the memory of a device, how KV memory is divided, and which weights
//	core/residency            stay on the device
//	core/hostcache            which images of weights and adapters are in host memory, and of weights on disk
//	core/loadsource           where weights are loaded from
//	core/lora                 which adapters are on a device
//	core/offload, core/tier   which KV blocks are copied to the tiers of a node, and which ones these keep
//	core/restore              which KV blocks are restored instead of being computed
//	core/remote, core/export  which KV blocks are fetched from other replicas and nodes
//	core/migrate              how a running sequence moves to another replica
//	core/session, core/wake   which requests wait for a replica, and where a sequence goes on that lost its own
//	core/quarantine           when a device that failed is used again
//	core/preempt              which replicas may be preempted, and how one leaves
//
// A simulation has one event queue and one goroutine, and reads no clock. Events are ordered by time,
// kind and index, so the order does not depend on when they were planned. The same configuration and
// requests give the same bytes of the record and the same result.
//
// # Steady steps
//
// While a replica only decodes, its steps are run at once until something else happens: a sequence of it
// ends or has no block, or one is submitted to it. The machines have functions for that, beside the
// ones for single steps (batch.Scheduler.RunSteady). The reports of such a replica to the router are made
// when the router needs them, each with the state that the replica had at its time; a report that a later
// one replaces before it is read is left out. Config.StepByStep turns this off. TestStepsAtOnce checks that
// the record and the result are the same either way. A replica that takes adapters or whose node has tiers has
// no steady steps: after each one, adapters may be loaded and blocks offloaded.
//
// # Copies
//
// Weights are copied as streams that share the disk and the network of a node and the link of a device equally
// (copies.go); a copy is as fast as the slowest of its shares. Adapters and KV blocks are small, and are copied one
// after another over links: from and to the host memory of a device, and from and to the disk of a node (link.go).
// When such a copy ends is known when it begins. The link of a device and the disk of a node are in both models, so
// weights on the one hand, and adapters and KV blocks on the other, do not delay each other. They share the host
// cache.
//
// # Remote KV blocks
//
// Nodes with Tiers.Remote fetch KV blocks that other replicas have, or the tiers of other nodes that
// have it too (remote.go). A fetch takes the networks of both nodes, the links of both devices and the
// disk at once, like the copies of other KV blocks; its blocks arrive one after another. The one router
// names who has them. It may also name a tier of the node that asks; blocks from there on are not fetched.
//
// # Migrations
//
// The sequences of a replica that leaves, or goes to standby, migrate to the replica that its deployment chooses
// (migration.go). Their KV blocks are copied as streams, like weights: over the links of both devices, and the networks
// of both nodes. Those of a replica with several devices pass over the link of its first one. Blocks have arrived when
// the copy has ended. A session learns at once that its sequence has moved.
//
// # Lives of replicas
//
// A scenario begins with its replicas in place: the cluster runs for a minute before, in which loads take no time.
// After that a start of a replica takes as long as its weights, its KV memory and engine, and its graphs. An
// image in the host cache is filled by the loads that pass through it, and by weights that are parked. An image on the
// disk is written after a load, or for weights that are parked without room in host memory.
//
// A replica that starts has no adapters on its device, and uses what the KV tiers of its node have. When it ends or
// crashes, its adapters are gone, and so is what it was copying to and from tiers; what it had locked there is free
// at once.
//
// The actors repeat much each second, so that lost messages do no harm. Here none is lost, and what would change
// nothing is left out: ticks of a deployment that has what it wants and of which nothing was heard for a while,
// ticks of devices with one replica, reports on KV memory between them, and the timers of sessions that have a
// replica. A deployment learns the load of its replicas before it decides.
//
// # Faults
//
//	node     its devices, host cache, KV tiers and replicas are gone, and its disk is kept otherwise. (A node
//	         finds the KV blocks on its disk again; here they are lost.) Its sessions notice the silence by
//	         themselves, the router after 1 s, and the deployments after 1.2 s, which is the lease of a
//	         member. It comes back as another process.
//	device   its memory is lost and its replicas crash. core/quarantine tests it when it responds again.
//	replica  it crashes: its weights stay, its KV blocks are lost, and its engine starts again.
//	hang     a step takes longer. core/replica notices that, and its deployment replaces it in the end. The
//	         steps of a replica that has such a fault are watched, and run one by one.
//	network  of a node or between two nodes, the disk of a node, or the link of a device is slower, or the
//	         network is cut. A node whose network is cut is lost to the others, and goes on. Its sessions,
//	         the router and the deployments notice the silence as above; after 1.2 s its replicas drop the
//	         sequences, and the node joins again as another member. A load that gets no bytes from another
//	         node for 10 s uses another source, a migration fails after 15 s, and KV blocks that do not arrive
//	         are computed.
//
// A sequence that loses its replica is submitted again by its session with the tokens that it has. They are
// computed again, but for the blocks that another replica or a tier has.
//
// # Commands
//
// A command of an operator changes what is stored of a deployment, or which nodes drain, with the rules of the command
// of that name. The machines do the rest. A replica that is preempted saves its KV blocks in the tiers of its node, if
// there are any.
//
// # Results
//
// A Result has the figures of the whole run, and with Config.Buckets a Series: figures over time, and the
// intervals in which each replica was in one state. The state is the one of the replica's machine, and is
// looked at after each of its events. Alternatives are results of several scenarios with the same seeds.
//
// # Records
//
// Config.Record receives each decision as a line of JSON, after a Header with the scenario. A Replay compares
// a run with such a record.
//
// # What is left out
//
// Messages take no time and are not lost, unless a network is cut. All requests come in at one router, which is never
// lost, nor are the leaders of the deployments and the planner. Switches by command (core/switching) and levels of
// single replicas are not simulated. Weights are right, so there are no canaries. The pages for adapters do not change,
// and a step takes no longer because of its adapters. Replicas send announcements on a timer of their own only if an
// earlier one had no room for all changes; the actors send one every 300 ms.
package simulate
