// Package cudatest is the suite that every driver of cuda.Device passes: memory and its accounting, order within a stream and
// between streams, sticky faults, bad addresses and bad indices, and each kernel against float64.
//
// It also holds drivers to what continuous batching needs: what a row yields is the same, bit by bit, in any batch.
package cudatest
