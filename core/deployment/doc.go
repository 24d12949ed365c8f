// Package deployment decides how a deployment keeps the requested number of replicas serving: what
// becomes of each replica, when one is added, replaced, moved or removed, and which GPUs are avoided.
// core/schedule chooses the next change and the GPUs.
//
// A Deployment handles one Event at a time and returns Effects for its caller to carry out, in
// order. Commands that are not answered are repeated by the next Tick; all of them are idempotent.
// The package never reads a clock: the caller passes the time.
//
// # Replicas
//
//	phase                                trigger        guard        next
//	absent                               added          -            placing
//	absent                               moveStarted    -            starting
//	absent                               adopted        -            loading
//	placing                              placed         -            starting
//	placing                              notPlaced      -            absent
//	placing                              retired        -            absent
//	starting                             accepted       -            loading
//	starting,loading,up,draining,stopping  reported     -            same
//	starting,loading                     reportServing  -            up
//	up,draining,stopping                 reportServing  -            same
//	starting,loading,up                  reportDraining -            draining
//	draining,stopping                    reportDraining -            same
//	starting,loading                     failed         -            stopping
//	up                                   failed         deviceLost   stopping
//	up,draining,stopping                 failed         -            same
//	starting,loading,up                  retired        -            draining
//	draining                             drained        -            stopping
//	stopping                             drained        -            same
//	starting,loading,up,draining         exited         restartable  absent
//	starting,loading,up,draining         exited         -            stopping
//	stopping                             exited         -            same
//	starting,loading,up,draining         unreachable    -            absent
//	stopping                             unreachable    -            same
//	starting,loading,up,draining,stopping  nodeLost     -            absent
//	stopping                             freed          -            absent
//
// The guards: restartable: the replica is no substitute, and it did not exit on this GPU within the
// last 30 s, so that it is restarted where its lease is; deviceLost: the failure is a quarantine. A
// replica enters draining for at least one look at its report: one without sequences to finish goes
// on to stopping at once.
//
// Placing is behind one effect: Place. What chooses the GPU answers with the triggers placed and
// notPlaced.
//
// # Deployment
//
//	state     change    next
//	unknown   applied   active
//	unknown   deleted   removing
//	unknown   outdated  fenced
//	active    applied   active
//	active    deleted   removing
//	active    outdated  fenced
//	removing  applied   active
//	removing  deleted   removing
//	removing  outdated  fenced
//
// An event that a table does not have changes nothing and returns Ignored. A fenced deployment
// ignores all events.
//
// Invariants, checked by the property test:
//
//   - one phase: a replica changes its phase only along the table
//   - fenced: after StaleTerm there is no effect but Ignored
//   - known: commands to a node or a GPU are for live members
//   - observed first: no replica is placed, started or retired before every node has reported its
//     replicas, or had the time to
//   - placed: a replica is started on a GPU of a schedulable node, never a quarantined one
//   - avoidance: a replica is not placed by choice on a GPU that is being avoided
//   - one at a time: at most one replica is placed at a time
//   - unique: no two replicas have the same name, and no new one takes the name of a replica that a
//     lost node may bring back, unless it returns to the lease of that name
//   - revision: a replica is confirmed only if it found the files of the revision
//   - one record: at most one Record is in flight
//   - substitute first: a current replica drains for a move only when its substitute serves
//   - converges: when all commands are answered and nothing fails, the requested number of replicas
//     serves, all are current, and nothing else is left
package deployment
