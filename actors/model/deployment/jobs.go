package deployment

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/backend"
	core "troupe/core/deployment"
	"troupe/core/hbm"
	"troupe/engine"
	"troupe/messages"
)

const (
	recordTimeout = 5 * time.Second // to store digests
	levelTimeout  = 2 * time.Second // to store a level
)

// inspected, recorded and levelStored are messages to self.
type (
	inspected struct {
		incarnation uint64
		engine      backend.Kind
		path        string
		facts       engine.ModelInfo
		err         error
	}
	recorded struct {
		incarnation uint64
		err         error
	}
	levelStored struct {
		incarnation uint64
		wakes       bool
		err         error
	}
)

// model is an inspected model.
type model struct {
	engine backend.Kind
	path   string
	facts  engine.ModelInfo
}

// need returns the memory that a replica needs on a GPU, or zero if another model was inspected.
func (m *model) need(s *messages.DeploymentSpec) hbm.Need {
	if m == nil || m.path != s.GetPath() || m.engine != engineOf(s.GetEngine()).Kind {
		return hbm.Need{}
	}
	return m.facts.Need(engine.LoadSpec{
		BlockTokens: int(s.GetBlockTokens()), RequestedBlocks: int(s.GetKvBlocks()),
		AdapterPages: int(s.GetAdapterPages()),
		Limits: engine.Limits{
			StepTokens: int(s.GetStepTokens()), MaxSequences: int(s.GetMaxSequences()),
			MaxAdapters: int(s.GetMaxAdapters()), MaxRank: int(s.GetMaxAdapterRank()),
		},
	})
}

// inspect starts a job that reads the model's headers, to compute the memory that a replica needs.
func (d *deployment) inspect(ctx actor.Context, kind backend.Kind, path string) {
	inspect, incarnation := d.Inspect, d.incarnation
	supervise.Job(ctx, d.lifetime,
		func(context.Context) (engine.ModelInfo, error) { return inspect(kind, path) },
		func(f engine.ModelInfo, err error) any { return &inspected{incarnation, kind, path, f, err} })
}

func (d *deployment) onInspected(ctx actor.Context, msg *inspected) {
	if msg.incarnation != d.incarnation {
		return
	}
	e := core.Inspected{Engine: msg.engine, Path: msg.path}
	if msg.err != nil {
		e.Fault = msg.err.Error()
	} else {
		d.model = &model{msg.engine, msg.path, msg.facts}
		e.Need = d.model.need(d.spec)
	}
	d.handle(ctx, e)
}

// record starts a job that stores the digests of the first replica. The stored spec comes back
// through the group.
func (d *deployment) record(ctx actor.Context, e core.Record) {
	record, name, incarnation, rt := d.Record, d.Name, d.incarnation, supervise.RuntimeOf(ctx.ActorSystem())
	supervise.Job(ctx, d.lifetime,
		func(life context.Context) (struct{}, error) {
			c, cancel := rt.WithTimeout(life, recordTimeout)
			defer cancel()
			return struct{}{}, record(c, name, e.Deploy, e.Weights, e.Revision)
		},
		func(_ struct{}, err error) any { return &recorded{incarnation, err} })
}

// onRecorded ends the job. A failed one is retried: replicas report every second until they may
// serve.
func (d *deployment) onRecorded(ctx actor.Context, msg *recorded) {
	if msg.incarnation != d.incarnation {
		return
	}
	if msg.err != nil {
		d.Log.Warn().Err(msg.err).Str("model", d.Name).Msg("storing weight digests failed; retrying")
	}
	d.handle(ctx, core.Recorded{})
}

// storeLevel starts a job that stores the level of the replicas. The stored spec comes back through the
// group.
func (d *deployment) storeLevel(ctx actor.Context, e core.StoreLevel) {
	store, name, incarnation, rt := d.StoreLevel, d.Name, d.incarnation, supervise.RuntimeOf(ctx.ActorSystem())
	revision := d.revision
	if e.Wakes {
		d.wake = wake{supervise.Now(ctx), revision}
	}
	supervise.Job(ctx, d.lifetime,
		func(life context.Context) (struct{}, error) {
			c, cancel := rt.WithTimeout(life, levelTimeout)
			defer cancel()
			return struct{}{}, store(c, name, revision, storedLevel(e.Level), e.Why)
		},
		func(_ struct{}, err error) any { return &levelStored{incarnation, e.Wakes, err} })
}

// onLevelStored ends the job. A failed one is retried while requests wait: routers repeat WakeModel.
func (d *deployment) onLevelStored(ctx actor.Context, msg *levelStored) {
	if msg.incarnation != d.incarnation {
		return
	}
	switch {
	case msg.err != nil:
		d.wake = wake{}
		d.Log.Debug().Err(msg.err).Str("model", d.Name).Msg("storing the level failed; retrying")
	case msg.wakes:
		d.OnWake(d.Name)
	}
	d.handle(ctx, core.LevelStored{})
}
