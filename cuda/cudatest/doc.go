// Package cudatest is the conformance suite for drivers of cuda.Device. It covers memory and its
// accounting, order within and between streams, sticky faults, bad addresses and indices, and each
// kernel against float64.
//
// It also checks a requirement of continuous batching: a row's result has the same bits in any
// batch.
package cudatest
