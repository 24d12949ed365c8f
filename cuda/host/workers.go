package host

import (
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// partWork is how many multiply-adds a part of a job has at the least: a few microseconds.
	partWork = 1 << 17
	// partsEach is how many parts a worker gets at the most. More than one, so that a worker that is late leaves
	// more to the others.
	partsEach = 4
	// patience is how often a worker looks for more before it sleeps: about ten microseconds, the gap between two
	// kernels of a step. Waking takes longer than that.
	patience = 64
)

// pool is goroutines that help with large kernels. Who has the work does it too, and never waits for help that is late.
type pool struct {
	jobs    chan *job
	workers int // with the one who has the work
	ended   sync.WaitGroup
}

func newPool(workers int) *pool {
	p := &pool{jobs: make(chan *job, workers), workers: workers}
	for range workers - 1 {
		p.ended.Go(p.help)
	}
	return p
}

// close ends the pool. Nothing may be split any more.
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
	for range patience {
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

// job is work on [0, n) in parts that whoever comes takes in turn.
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
	for range patience {
		if j.left.Load() == 0 {
			return
		}
		runtime.Gosched()
	}
	j.done.Wait()
}
