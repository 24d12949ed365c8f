// Package simulate runs a cluster on virtual time. It makes no decision itself: it is a thin shell, as
// actors are, over the machines of the product, and the time of each step comes from core/cost.
//
//	core/router, core/route   which replica serves a request
//	core/replica              what a replica accepts, and when it runs a step and reports
//	core/batch                which sequences run in a step, and which are preempted
//	core/kv                   which KV blocks are shared and evicted, and which ones a router knows
//	core/turns                which replica of a device runs next
//	core/schedule, core/hbm   where replicas are placed, and how KV memory is divided
//	core/lora, core/hostcache which adapters are on a device, and in host memory
//	core/offload, core/tier   which KV blocks are copied to the tiers of a node, and which ones these keep
//	core/restore              which KV blocks are restored instead of being computed
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
// Copies go over links: from and to the host memory of a device, and from and to the disk of a node. Those over
// one link run one after another. When a copy ends is known when it begins, so it is one event. Pools, tiers and
// copies share one agenda of events.
//
// # What is left out
//
// Messages take no time and are not lost. All requests come in at one router. Replicas serve from the
// beginning and until the end: loads, switches, scaling, preemption of replicas, migration, KV blocks of other
// nodes, faults and the network are not simulated. The pages for adapters do not change, and a step takes no
// longer because of its adapters. Replicas send announcements on a timer of their own only if an earlier one had
// no room for all changes; the actors send one every 300 ms.
package simulate
