// Package top shows a cluster live in the terminal: nodes, GPUs, replicas and deployments, with
// their rates per second.
//
// A Sample is the answer of the control service at one moment, and rates are computed from two
// samples. The screen is a function of the last two samples, the keys pressed and the size of the
// terminal. This package never reads the clock for it, and only the command that Update returns
// sends requests to the cluster.
package top
