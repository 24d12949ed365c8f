package host

import (
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// partWork is the minimum number of multiply-adds per part: a few microseconds.
	partWork = 1 << 17
	// partsEach is the maximum number of parts per worker. With more than one, other workers can
	// take over parts of a late one.
	partsEach = 4
	// spinRounds is how often a worker polls for work before it sleeps: about ten microseconds, the
	// gap between two kernels of a step. Waking up takes longer.
	spinRounds = 64
)

// pool is a set of goroutines that help with large kernels. The caller works too and never waits
// for a late helper.
type pool struct {
	jobs    chan *job
	workers int // including the caller
	ended   sync.WaitGroup
}

func newPool(workers int) *pool {
	p := &pool{jobs: make(chan *job, workers), workers: workers}
	for range workers - 1 {
		p.ended.Go(p.help)
	}
	return p
}

// close ends the pool. It must not be used afterwards.
func (p *pool) close() {
	close(p.jobs)
	p.ended.Wait()
}

func (p *pool) help() {
	for {
		j, ok := p.next()
		if !ok {
			return
		}
		j.run()
	}
}

func (p *pool) next() (j *job, ok bool) {
	for range spinRounds {
		select {
		case j, ok = <-p.jobs:
			return j, ok
		default:
			runtime.Gosched()
		}
	}
	j, ok = <-p.jobs
	return j, ok
}

// split implements kernels.Workers. A panic in any part is raised again in the caller.
func (p *pool) split(n int, cost int64, work func(lo, hi int)) {
	parts := int(min(int64(p.workers*partsEach), int64(n), int64(n)*cost/partWork))
	if parts <= 1 || p.workers == 1 {
		work(0, n)
		return
	}
	j := &job{n: n, parts: parts, work: work}
	j.left.Store(int32(parts))
	j.done.Add(parts)
	for range min(parts, p.workers) - 1 {
		select {
		case p.jobs <- j:
		default: // all are busy
		}
	}
	j.run()
	j.wait()
	if failure := j.failure.Load(); failure != nil {
		panic(*failure)
	}
}

// job is work on [0, n), in parts that idle workers take in turn.
type job struct {
	n, parts int
	work     func(lo, hi int)
	taken    atomic.Int32
	left     atomic.Int32 // parts not done
	done     sync.WaitGroup
	failure  atomic.Pointer[any]
}

func (j *job) run() {
	for {
		i := int(j.taken.Add(1)) - 1
		if i >= j.parts {
			return
		}
		j.part(i)
	}
}

func (j *job) part(i int) {
	defer func() {
		if p := recover(); p != nil {
			j.failure.Store(&p)
		}
		j.left.Add(-1)
		j.done.Done()
	}()
	j.work(j.n*i/j.parts, j.n*(i+1)/j.parts)
}

func (j *job) wait() {
	for range spinRounds {
		if j.left.Load() == 0 {
			return
		}
		runtime.Gosched()
	}
	j.done.Wait()
}
