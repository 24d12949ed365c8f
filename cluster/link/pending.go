package link

import (
	"strings"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// pending records which futures wait for which actor of another node. Only the caller that takes a
// future out may answer it, so that an answer and a loss of the member do not race.
//
// Invariant: it holds at most twice as many futures as are alive, or sweepMin. When it has doubled,
// a sweep removes futures that timed out.
type pending struct {
	alive func(id string) bool

	mu      sync.Mutex
	asked   map[string]*actor.PID // id of the future → target of its request
	sweepAt int
}

const (
	sweepMin     = 1024
	futurePrefix = "future$" // prefix of protoactor's future ids
)

func newPending(sys *actor.ActorSystem) *pending {
	alive := func(id string) bool { _, ok := sys.ProcessRegistry.GetLocal(id); return ok }
	return &pending{alive: alive, asked: map[string]*actor.PID{}, sweepAt: sweepMin}
}

func isFuture(id string) bool { return strings.HasPrefix(id, futurePrefix) }

func (p *pending) add(id string, target *actor.PID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) >= p.sweepAt {
		for id := range p.asked {
			if !p.alive(id) {
				delete(p.asked, id)
			}
		}
		p.sweepAt = max(sweepMin, 2*len(p.asked))
	}
	p.asked[id] = target
}

// take removes a future and reports whether it was waiting.
func (p *pending) take(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.asked[id]
	delete(p.asked, id)
	return ok
}

// takeAll removes and returns all futures that wait for an address.
func (p *pending) takeAll(address string) map[string]*actor.PID {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := map[string]*actor.PID{}
	for id, target := range p.asked {
		if target.GetAddress() == address {
			taken[id] = target
			delete(p.asked, id)
		}
	}
	return taken
}
