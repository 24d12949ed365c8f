// Package deployment decides how a deployment keeps its replicas serving: what happens to each replica,
// and when one is started, restarted, drained and stopped. The planner decides which replicas there are
// and on which GPUs.
//
// A Deployment handles one Event at a time and returns Effects for its caller to carry out, in
// order. Commands that are not answered are repeated by the next Tick; all of them are idempotent.
// The package never reads a clock: the caller passes the time.
//
// # Replicas
//
//	event           phase                   guard        next
//	assigned        absent                               starting
//	adopted         absent                               loading
//	accepted        starting                             loading
//	reported        starting … stopping                  same
//	reportUp        starting, loading                    up
//	                up, draining, stopping               same
//	reportDraining  starting, loading, up                draining
//	                draining, stopping                   same
//	failed          starting, loading                    stopping
//	                up                      device lost  stopping
//	                up, draining            faulty       stopping
//	                up, draining, stopping               same
//	retired         starting, loading, up                draining
//	drained         draining                             stopping
//	                stopping                             same
//	exited          starting, loading, up   restartable  absent
//	                starting … draining                  stopping
//	                stopping                             same
//	unreachable     starting … draining                  absent
//	                stopping                             same
//	nodeLost        starting … stopping                  absent
//	freed           stopping                             absent
//
// The guards: restartable: the replica did not exit on this GPU within the last 30 s, so it is restarted on
// the GPU of its lease; device lost: the failure is a quarantine; faulty: a step of the replica has hung for
// long, or its answers are wrong.
// A replica that takes over the lease of one that exited, and finds the files of an earlier deployment in
// it, fails without a failure of the deployment: its lease is released, and the replica starts again.
// Every retired replica enters draining; if it has no sequences to finish, it enters stopping at
// once.
//
// A replica that is wanted on standby counts as one of the requested number. It is started for that level,
// or learns it by SetLevel, which every tick repeats until its report shows the level. Only replicas that
// are to serve count for the condition ready.
//
// A parked deployment keeps its number of replicas, and has none: they are retired like those that are not
// assigned, and their weights are parked when they stop.
//
// A single replica may be parked too: it is retired, its weights are parked when it stops unless another
// replica on the device uses them, one replica fewer is wanted, and its name is not used until it is
// activated.
//
// A replica with a stored preemption is retired at once, at whichever level it is. While it drains,
// core/preempt decides what happens to its sequences, and when it stops. The record holds the number of
// replicas down, and the name of the replica is not used, until the record is removed. A replica with a
// record that no node reports is stopped, since its memory may remain.
//
// # Assignments
//
// The replicas of a deployment are those of Spec.Assigned, each on its GPU:
//
//   - An assigned replica that is not there starts, with others at the same time. It waits while its
//     node is no member or drains, while its GPU is quarantined, while other replicas have to leave for
//     it, and until the model has been inspected.
//   - A replica that is withdrawn is retired: it was assigned by the spec before, or Spec.Withdrawn has it, or the
//     deployment is stopped. So is one that is assigned to another GPU: it starts there when its memory is free.
//     Sequences migrate only to replicas that stay.
//   - A replica that is neither assigned nor withdrawn serves until the planner decides about it. A node that comes
//     back may have one whose assignment was withdrawn meanwhile, and a new leader may find one.
//   - A replica that exits is restarted on the GPU where its memory is. If it is not assigned there any
//     longer, its memory is freed.
//   - An assignment has failed if its replica failed to load, lost its device, is faulty, or exited twice
//     within 30 s. It is not tried again before the planner withdraws it or writes it with another time.
//   - A replica with other settings or files than the spec stays, and is reported as outdated.
//   - One that an operator has parked or preempted does not start, even if it is assigned.
//   - A node that comes back with a replica that is assigned there keeps it.
//
// The planner writes the number of replicas together with the assignments; the deployment never changes the
// number. Until it is planned, it keeps the replicas that are there, and starts no others.
//
// If replicas are missing for lack of room, the planner says so with PlacementRefused, which becomes the
// failure of the deployment until the next one, for at most 30 s. Another plan does not clear a failure on a
// GPU; that happens when another replica begins to serve and no assignment has failed, and when those that
// are wanted serve, or are on standby if none is to serve.
//
// A deployment that has failed and of which no replica serves refuses requests. Requests wait instead as long
// as it may recover soon: the planner expects room, a node has joined since the last plan, a replica starts or
// leaves, or a node is shutting down or has been away for less than 30 s, which is enough for a restart.
//
// # Deployment
//
//	event     state                      next
//	applied   unknown, active, removing  active
//	deleted   unknown, active, removing  removing
//	outdated  unknown, active, removing  fenced
//
// # Waking
//
// A deployment whose minimum is 0 replicas may be asleep, without replicas, until requests wait for it at
// some router. It reports these requests, and the planner wakes it. Requests also undo a level by which an
// operator keeps all of its replicas from serving, standby or parked: then the deployment stores that they
// are active. Wanted is an event of this table only if requests wait that may wake it.
//
//	event   wake              guard                                    next     effects
//	wanted  resting           reached a level known to the requests    storing  store the level active
//	        resting, storing                                           same     —
//	tick    resting           was parked, failed, not wanted for 10 s  storing  store the level parked
//	        resting, storing                                           same     —
//	scaled  storing                                                    resting  —
//
// The level is stored by compare-and-swap on the spec that was applied last, so that an operator's change
// wins. A level is known to the requests if their router knew of it when it reported them. A router does
// not count requests that waited when it learned of the level, so a command is undone only by requests that
// come after it, and only once it has been carried out: the level standby is reached when no replica serves
// or finishes its sequences any longer, for which a switch of a GPU waits. A deployment that was parked and
// woken in vain, because no device has room for it, is parked again once no request waits for it. The
// planner puts deployments to sleep.
//
// An event without a row changes nothing and returns Ignored. A fenced deployment ignores all
// events.
//
// Invariants, checked by the property tests:
//
//   - planned: a replica starts only on the GPU to which it is assigned, or where its memory is until there
//     is a plan; and the number of replicas that is stored does not change
//   - failed: an assignment whose replica failed is not tried again with the same time
//   - withdrawn: a replica that is withdrawn, or assigned to another GPU, leaves as soon as all nodes have reported
//   - offered: no other replica leaves, and one that is there without an assignment is reported without its time
//   - reported: the status has each replica that is assigned or there once, and why its assignment failed
//   - refused: a refusal counts only for the stored spec, and ends when nothing is missing
//   - condition: when all commands are answered, the condition says what is there and what is missing, and no failure
//     stays if nothing is
//   - one phase: a replica changes its phase only along the table
//   - fenced: after StaleTerm there is no effect but Ignored
//   - known: commands to a node or a GPU are for live members
//   - observed first: no replica is started or retired before every node has reported its replicas, or
//     timed out
//   - placed: a replica is started on a GPU of a schedulable node, never a quarantined one
//   - awaited: no deployment fails for lack of room while a node has been away for less than 30 s
//   - revision: a replica is confirmed only if it found the files of the revision
//   - held: no replica is started under the name of one that is parked, or whose preemption is stored
//   - one record: at most one Record is in flight
//   - one scale: at most one Scale is in flight
//   - woken: a deployment that may sleep and of which an operator keeps all replicas from serving stores the
//     level active when requests wait, and no other one does
//   - command: requests that were reported before a level was known, or reached, do not undo it
//   - given up: only a deployment that may sleep, has no level and has failed is parked again, after requests
//     have not waited for 10 s
//   - parked: weights are parked only while the deployment is parked or asleep, or if an operator
//     has parked or preempted the replica
//   - level: a replica learns the wanted level of the spec, and no other
//   - converges: when all commands are answered and nothing fails, the assigned replicas are there, on their
//     GPUs and at their levels, and nothing else is left
package deployment
