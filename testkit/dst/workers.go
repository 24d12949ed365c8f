package dst

import "sync"

// workers are goroutines that run tasks. They are kept between tasks, since the stack of a new
// goroutine has to grow each time.
type workers struct {
	mu   sync.Mutex
	keep bool // false: a worker ends with its task
	idle []chan func()
}

// open keeps workers until close.
func (p *workers) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep = true
}

// close ends the idle workers. Those that run a task end with it.
func (p *workers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep = false
	for _, w := range p.idle {
		close(w)
	}
	p.idle = nil
}

// start runs a task in an idle worker, or in a new one.
func (p *workers) start(run func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		p.idle[n-1] <- run
		p.idle = p.idle[:n-1]
		return
	}
	next := make(chan func(), 1)
	next <- run
	go p.work(next)
}

func (p *workers) work(next chan func()) {
	for run := range next {
		run()
		p.mu.Lock()
		if !p.keep {
			p.mu.Unlock()
			return
		}
		p.idle = append(p.idle, next)
		p.mu.Unlock()
	}
}
