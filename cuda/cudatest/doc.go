// Package cudatest is the suite that every driver of cuda.Device passes.
package cudatest
