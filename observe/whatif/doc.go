// Package whatif simulates what the planner would do with a running cluster, for "troupe plan --what-if": with its
// devices and deployments and their present demand, or with other settings and more requests.
//
// The simulation is that of package simulate. It begins with the replicas where they are. What it assumes is in the
// report.
package whatif
