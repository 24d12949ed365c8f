package dst

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/actors/model/deployment"
	"troupe/actors/supervise"
	"troupe/cluster/store"
	"troupe/messages"
	"troupe/node/steps"
	"troupe/testkit/natskv"
)

// operatorName is the name of the operator's side of the store.
const operatorName = "operator"

// operator changes the stored deployments. Its connection has no faults.
type operator struct {
	runtime supervise.Runtime
	client  *natskv.Client
	ctx     context.Context
	end     context.CancelFunc
	opened  chan struct{}
	store   *store.Store // after opened is closed
	stops   []func()

	mu       sync.Mutex
	stored   map[string]*messages.DeploymentSpec   // nil: deleted
	history  map[string][]*messages.DeploymentSpec // by name
	adapters map[string]*messages.AdapterSpec      // by model and name; nil: deleted
	todo     []func() error
	busy     bool // a goroutine works on todo
}

func newOperator(w *World, server *natskv.Server) *operator {
	client := server.Connect(&nodeRuntime{w, operatorName, operatorName + " store"})
	o := &operator{runtime: w.Runtime(operatorName), client: client,
		opened: make(chan struct{}), stored: make(map[string]*messages.DeploymentSpec),
		history:  make(map[string][]*messages.DeploymentSpec),
		adapters: make(map[string]*messages.AdapterSpec)}
	o.ctx, o.end = context.WithCancel(context.Background())
	o.runtime.Go(o.open)
	return o
}

// open opens the store and follows the deployments in it.
func (o *operator) open() {
	var err error
	if o.store, err = store.Open(o.ctx, o.client, store.Config{Runtime: o.runtime}); err != nil {
		return // the run has ended
	}
	close(o.opened)
	o.keep(func(ctx context.Context) error { o.store.Run(ctx, func(string, string) {}); return nil })
	o.keep(func(ctx context.Context) error { return o.store.Watch(ctx, o.apply) })
	o.keep(func(ctx context.Context) error { return o.store.WatchAdapters(ctx, o.applyAdapter) })
}

// keep keeps f running.
func (o *operator) keep(f func(context.Context) error) {
	o.stops = append(o.stops, steps.Background(o.runtime, func(ctx context.Context) {
		for ctx.Err() == nil {
			_ = f(ctx) // what it follows is lost
			o.pause(ctx, time.Second)
		}
	}))
}

func (o *operator) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-o.runtime.After(d):
	}
}

func (o *operator) apply(c deployment.Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.Synced {
		return
	}
	if o.stored[c.Name] = c.Spec; c.Spec != nil {
		o.history[c.Name] = append(o.history[c.Name], c.Spec)
	}
}

// replicas returns the wanted number of replicas, without those that are preempted.
func (o *operator) replicas(name string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return int(o.stored[name].Wanted())
}

// level returns the wanted level of a replica.
func (o *operator) level(model, replica string) messages.Level {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stored[model].LevelOf(replica)
}

// allParked reports whether a model is parked, or the last of its replicas are.
func (o *operator) allParked(model string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.stored[model]
	return s.GetLevel() == messages.Level_LEVEL_PARKED ||
		s.GetReplicas() > 0 && s.Wanted() == 0 && len(s.ParkedReplicas()) > 0
}

// parked reports whether a model with these files is parked, or one of its replicas.
func (o *operator) parked(revision string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, spec := range o.stored {
		if spec.Parks() && spec.GetRevisionDigest() == revision {
			return true
		}
	}
	return false
}

// Put stores a deployment; nil deletes it.
func (o *operator) Put(name string, spec *messages.DeploymentSpec) {
	o.do(func() error {
		old, at, err := o.store.Get(o.ctx, name)
		switch {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return err
		case spec != nil:
			next := proto.CloneOf(spec)
			next.Assignments = old.GetAssignments() // only the planner changes them
			_, err = o.store.Put(o.ctx, next, at)
			return err
		case err == nil:
			return o.store.Delete(o.ctx, name, false)
		}
		return nil
	})
}

// deleteWeights deletes a deployment, whose replicas free their weights.
func (o *operator) deleteWeights(name string) {
	o.do(func() error { return o.store.Delete(o.ctx, name, true) })
}

// Update changes a stored deployment.
func (o *operator) Update(name string, change func(*messages.DeploymentSpec)) {
	o.do(func() error {
		spec, at, err := o.store.Get(o.ctx, name)
		if err != nil {
			return err
		}
		change(spec)
		_, err = o.store.Put(o.ctx, spec, at)
		return err
	})
}

// What an operator changes may be missing for missingTries attempts, while nodes restore a bucket.
const (
	tryAgain     = 100 * time.Millisecond
	missingTries = 30
)

// do makes a change after those before it. It repeats the change until it succeeds, or until what it
// changes does not exist.
func (o *operator) do(change func() error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.todo = append(o.todo, change)
	if !o.busy {
		o.busy = true
		o.runtime.Go(o.work)
	}
}

func (o *operator) work() {
	select {
	case <-o.opened:
	case <-o.ctx.Done():
	}
	for tries := 0; o.ctx.Err() == nil; {
		o.mu.Lock()
		if len(o.todo) == 0 {
			o.busy = false
			o.mu.Unlock()
			return
		}
		change := o.todo[0]
		o.mu.Unlock()
		err := change()
		if missing := errors.Is(err, store.ErrNotFound); err != nil && (!missing || tries < missingTries) {
			tries++
			o.pause(o.ctx, tryAgain)
			continue
		}
		tries = 0
		o.mu.Lock()
		o.todo = o.todo[1:]
		o.mu.Unlock()
	}
}

// stop ends everything that the operator does.
func (o *operator) stop() {
	o.end()
	for _, stop := range o.stops {
		o.runtime.Go(stop)
	}
	o.client.Close()
}
