// Package top shows a cluster live in the terminal: nodes, GPUs, replicas and deployments, with what they do per second.
//
// A Sample is what the control service says at one moment, and two of them make rates. What is shown is a function of the
// last two samples, of the keys pressed and of the size of the terminal: nothing here asks the time, and only the command
// that Update returns asks the cluster.
package top
