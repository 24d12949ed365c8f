// Package planner holds the control loop of the cluster: it observes every second and changes how many replicas a
// deployment is to have, between its min_replicas and max_replicas.
//
// Parent: node. Children: none. There is one on every node, and one of them reigns: the one whose node holds the lease
// `planner`. The others try to take it when it is free.
// Speaks with: the router of its node (GetTable).
//
// What it decides (core/plan.Scaler) it writes to the store by compare-and-swap over the revision that it observed, as an
// operator would; the deployment carries it out. So a planner that does not know yet that its reign is over does no harm: the
// other one's write makes its own fail, and the next observation decides anew.
//
// A deployment with no replicas was stopped by an operator, and is left alone; none is scaled below one replica.
//
// State: how long a load has been what it is, per deployment: observed. A crash, or a new reign, loses it and takes a few
// seconds longer to decide.
package planner
