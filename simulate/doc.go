// Package simulate runs a cluster on virtual time. It makes no decision itself: it is a thin shell, as
// actors are, over the machines of the product, and the time of each step comes from core/cost.
//
//	core/router, core/route   which replica serves a request
//	core/replica              what a replica accepts, and when it runs a step and reports
//	core/batch                which sequences run in a step, and which are preempted
//	core/kv                   which KV blocks are shared and evicted, and which ones a router knows
//	core/turns                which replica of a device runs next
//	core/schedule, core/hbm   where replicas are placed, and how KV memory is divided
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
// the record and the result are the same either way.
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
// Messages take no time and are not lost. All requests come in at one router. Replicas serve from the
// beginning and until the end: loads, switches, scaling, preemption of replicas, migration, KV tiers, adapters,
// faults and the network are not simulated. Replicas send announcements on a timer of their own only if an
// earlier one had no room for all changes; the actors send one every 300 ms.
package simulate
