package main

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// keepBusy computes on all cores until the returned function is called.
func keepBusy() (stop func()) {
	var stopped atomic.Bool
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			for !stopped.Load() {
			}
		})
	}
	return func() { stopped.Store(true); all.Wait() }
}
