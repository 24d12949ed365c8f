// Package report makes capacity reports: of a running cluster from what its nodes report, and of a trace
// from the speeds of its models. core/capacity computes them.
package report
