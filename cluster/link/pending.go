package link

import (
	"strings"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// pending remembers which futures wait for which actor of another node. Whoever takes a future out of it may answer it: a
// future that is answered twice may show either answer.
//
// Invariant: it never holds more than twice the futures that are alive, or sweepMin. Those that ended by their time-out are
// swept out when it has doubled.
type pending struct {
	alive func(id string) bool

	mu      sync.Mutex
	asked   map[string]*actor.PID // id of the future → whom it asked
	sweepAt int
}

const (
	sweepMin     = 1024
	futurePrefix = "future$" // what protoactor calls them
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

// take reports whether the future was still waiting; now it is not.
func (p *pending) take(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.asked[id]
	delete(p.asked, id)
	return ok
}

// takeAll takes every future that waits for an address.
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
