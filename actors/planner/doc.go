// Package planner provides the actor that decides which replicas there are, and on which devices. It is the
// only writer of assignments.
//
// Parent: node. Children: none. Every node has one planner, and the one whose node holds the role lease
// `planner` leads. The others try to acquire the lease when it is free. Speaks with: the router of its node
// (GetClusterView), gpu actors (GetGpu) and host caches (GetHostCache) of all nodes, the deployments groups of
// the nodes that lead deployments (PlacementRefused), the planners of the other nodes (AdaptersUsed), replicas
// (PrefetchAdapters), the gpu actors of its node (DeviceChanged, which it passes on to the planner that leads), and
// control (GetPlanner, GetPlan, GetPlanHistory, ExplainModel).
//
// The actor drives the machine of core/planner, which decides when to observe, to plan and to store. A round
// has these steps, each of them a job that reports back:
//
//   - collect: the stored deployments with what they report, the nodes, and then all devices. A device that
//     does not answer within 500 ms is silent.
//   - check SLOs, schedule: core/schedule.Make.
//   - prefetch: which adapters replicas fetch ahead (schedule.Prefetch). Every 2 s, each planner reports to
//     the one that leads which adapters were requested at the gateway of its node. The pools of the replicas
//     load them, into memory that is free or least used.
//   - store: each deployment that changes, by compare-and-swap on the revision that was observed.
//
// Sharing of devices and parking are decisions of core/schedule.
//
// A stale leader does no harm: its write fails once the new leader has written, and it learns of the new term
// with the next event. A pause is stored, so that it outlives the leader. Deployments still converge to their
// assignments meanwhile.
//
// State: the memory of earlier plans (backoffs, learned limits), the last plans, refusals, the replicas that were lost
// with a node, and the popularity of adapters. A crash or a change of the leader loses it. The next plan starts from
// what runs, so that at worst a decision comes later, a failed start is repeated, or a name is used again.
package planner
