package host

import "sync"

// worthSplitting is how many multiply-adds a worker should have at the least, so that starting it costs little beside.
const worthSplitting = 1 << 18

// split implements kernels.Workers. A panic in any part is raised again in the caller.
func (d *device) split(n int, cost int64, work func(lo, hi int)) {
	parts := int(min(int64(d.Workers), int64(n), int64(n)*cost/worthSplitting))
	if parts <= 1 {
		work(0, n)
		return
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	var failure any
	part := func(i int) {
		defer func() {
			if p := recover(); p != nil {
				mu.Lock()
				failure = p
				mu.Unlock()
			}
		}()
		work(n*i/parts, n*(i+1)/parts)
	}
	for i := 1; i < parts; i++ {
		wait.Go(func() { part(i) })
	}
	part(0)
	wait.Wait()
	if failure != nil {
		panic(failure)
	}
}
