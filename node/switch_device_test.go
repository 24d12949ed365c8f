package node_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/cuda"
	"troupe/cuda/telemetry"
	"troupe/messages"
	"troupe/node"
)

// phased is a software device that prefers graphs and that can be held in each phase of a switch: its
// kernels, the copies of a load, its captures, and what replicas are asked to give back.
type phased struct {
	*watched
	loads, captures gate
	captured        atomic.Int64
	free            atomic.Int64  // launches of graphs until the device holds itself
	held            chan struct{} // gets a value then
	refuses         atomic.Bool   // captures fail
	parties         *parties
}

// gate lets work pass unless it is held.
type gate struct{ mu sync.RWMutex }

func (g *gate) pass() {
	g.mu.RLock()
	defer g.mu.RUnlock()
}

// hold returns a function that ends the hold.
func (g *gate) hold() func() {
	g.mu.Lock()
	return sync.OnceFunc(g.mu.Unlock)
}

func openPhased(t *testing.T) *phased {
	t.Helper()
	return &phased{watched: openWatched(t), held: make(chan struct{}, 1),
		parties: &parties{found: make(map[string]*party)}}
}

func (d *phased) GPU() node.GPU { return node.GPU{Device: d, Source: telemetry.Device(d.Device)} }

func (d *phased) Info() cuda.Info {
	info := d.watched.Info()
	info.Graphs = true
	return info
}

func (d *phased) NewStream(name string) (cuda.Stream, error) {
	s, err := d.watched.NewStream(name)
	if err != nil {
		return nil, err
	}
	return phasedStream{s.(watchedStream), name, d}, nil
}

type phasedStream struct {
	watchedStream
	name   string
	device *phased
}

func (s phasedStream) CopyIn(to cuda.Ptr, from []byte) error {
	if s.name == "load" {
		s.device.loads.pass()
	}
	return s.watchedStream.CopyIn(to, from)
}

func (s phasedStream) Capture(give func() error) (cuda.Graph, error) {
	s.device.captures.pass()
	if s.device.refuses.Load() {
		return nil, errors.New("no memory for graphs")
	}
	s.device.captured.Add(1)
	g, err := s.Stream.(cuda.Capturer).Capture(give)
	return phasedGraph{g}, err
}

type phasedGraph struct{ cuda.Graph }

func (g phasedGraph) Launch(on cuda.Stream) error {
	s := on.(phasedStream)
	if s.device.free.Add(-1) == 0 {
		s.device.hold.Lock()
		s.device.held <- struct{}{}
	}
	s.device.hold.RLock()
	defer s.device.hold.RUnlock()
	return g.Graph.Launch(s.Stream)
}

// parties finds the actors that take part in a switch, and crashes them.
type parties struct {
	mu    sync.Mutex
	found map[string]*party // "engine kjv-0"
	loses bool              // replicas lose the requests for memory
}

type party struct {
	pid    *actor.PID
	system *actor.ActorSystem
	lives  int
}

// crashNow makes a party crash.
type crashNow struct{}

func (p *parties) middleware(kind string) []actor.ReceiverMiddleware {
	if kind != "gpu" && kind != "replica" && kind != "engine" {
		return nil
	}
	return []actor.ReceiverMiddleware{func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
			switch env.Message.(type) {
			case *actor.Started:
				p.started(kind, ctx)
			case *crashNow:
				panic("the test crashes the " + kind)
			case *messages.ShrinkKV:
				if p.deaf() {
					return
				}
			}
			next(ctx, env)
		}
	}}
}

func (p *parties) started(kind string, ctx actor.ReceiverContext) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := kind
	for _, part := range strings.Split(ctx.Self().GetId(), "/") {
		if kind != "gpu" && strings.HasSuffix(part, "-0") {
			name = kind + " " + part
		}
	}
	if p.found[name] == nil {
		p.found[name] = &party{}
	}
	one := p.found[name]
	one.pid, one.system = ctx.Self(), ctx.ActorSystem()
	one.lives++
}

// deafen makes replicas lose the requests for memory, until the function that it returns is called.
func (p *parties) deafen() func() {
	set := func(on bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.loses = on
	}
	set(true)
	return func() { set(false) }
}

func (p *parties) deaf() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loses
}

// crash crashes a party, and returns a function that reports whether it has started again.
func (p *parties) crash(t *testing.T, name string) (again func() bool) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.found[name]
	if one == nil {
		t.Fatalf("no %s among %v", name, p.found)
	}
	before := one.lives
	one.system.Root.Send(one.pid, &crashNow{})
	return func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return one.lives > before
	}
}
