package replica

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/replica/migration"
	"troupe/actors/model/replica/tiering"
	"troupe/actors/supervise"
	"troupe/core/batch"
	core "troupe/core/replica"
	"troupe/messages"
)

func (r *replica) newMigrations(ctx actor.Context) *migration.Migrations {
	incarnation := r.incarnation
	kind, can := backendOf(r.Spec)
	return migration.New(migration.Config{
		Kind: kind, Can: can,
		Spec: r.Spec, Incarnation: incarnation, FirstAttempt: r.started, Machine: r.machine, Sequences: r.sequences,
		Bulk: r.Bulk, Transfers: r.Transfers,
		OpenBlocks: func() (migration.Blocks, error) { return r.OpenBlocks(r.model.GetHandle()) },
		Note:       func(note any) any { return &migrationNote{incarnation, note} }, Log: r.Log,
	}, r, ctx.Self())
}

func (r *replica) newTiering() *tiering.Tiering {
	incarnation := r.incarnation
	cfg := tiering.Config{
		Tiers: r.Tiers, Spec: r.Spec, Incarnation: incarnation, Started: r.started, Life: r.life, Machine: r.machine,
		Plane: r.Bulk, OpenBlocks: func() (Blocks, error) { return r.OpenBlocks(r.model.GetHandle()) },
		Copier: r.Copier, Pins: r.Pins, Note: func(note any) any { return &tieringNote{incarnation, note} }, Log: r.Log,
	}
	if r.Bulk == nil || r.Router == nil {
		cfg.Remote = nil
	}
	return tiering.New(cfg, r, &r.gates)
}

// Restoring implements migration.Host.
func (r *replica) Restoring(id string) bool { return r.tiering.Restoring(id) }

// AddAdapter implements migration.Host.
func (r *replica) AddAdapter(ctx actor.Context, spec *messages.AdapterSpec) {
	if spec != nil {
		r.addAdapter(spec)
		r.Perform(ctx, r.machine.Want())
	}
}

// Request implements migration.Host.
func (r *replica) Request(ctx actor.Context, id string, seq *messages.SequenceSpec, output []uint32) batch.Request {
	return r.base().Request(id, seq, output, supervise.Now(ctx))
}

// Moved implements migration.Host.
func (r *replica) Moved(ctx actor.Context, id string) { r.tiering.Dropped(ctx, id) }

// Migrating implements tiering.Host.
func (r *replica) Migrating(id string) bool { return r.migrations.Migrating(id) }

// queued reports a waiting sequence whose blocks may be looked up.
func (r *replica) queued(ctx actor.Context, e core.Queued) {
	if r.tiering.Queued(ctx, e.ID); e.Early {
		r.tiering.LookUpAhead(ctx)
	}
}
