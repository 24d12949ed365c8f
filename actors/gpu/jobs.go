package gpu

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	core "troupe/core/device"
	"troupe/core/health"
	"troupe/engine/residency"
)

// inspect starts a job that reads the sizes of a model.
func (d *device) inspect(ctx actor.Context, e core.Inspect) {
	models, spec, incarnation := d.Models, loadSpecOf(e.Spec), d.incarnation
	supervise.Job(ctx, d.lifetime,
		func(context.Context) (residency.Inspected, error) { return models.Inspect(spec.Path, spec.Revision) },
		func(f residency.Inspected, err error) any { return &inspected{incarnation, spec, f, err} })
}

// open starts a job that allocates the KV memory of a lease. The lease gets a new handle.
func (d *device) open(ctx actor.Context, e core.Open) {
	models, spec, incarnation, changes := d.Models, loadSpecOf(e.Spec), d.incarnation, &d.changes
	spec.KVBlocks, spec.Owner = e.Blocks, nameOf(e.Owner)
	handle := supervise.RuntimeOf(ctx.ActorSystem()).ID()
	changes.Add(1)
	supervise.Job(ctx, d.lifetime,
		func(life context.Context) (residency.Loaded, error) {
			defer changes.Done()
			if err := life.Err(); err != nil {
				return residency.Loaded{}, err
			}
			return models.Lease(spec, e.Copy, handle)
		},
		func(m residency.Loaded, err error) any { return &opened{incarnation, spec.Lease, m, err} })
}

// free starts a job that frees the memory of a lease.
func (d *device) free(ctx actor.Context, e core.Free) {
	models, lease, incarnation, jobs := d.Models, e.Lease, d.incarnation, &d.jobs
	jobs.Add(1)
	supervise.Job(ctx, d.lifetime,
		func(context.Context) (int64, error) {
			defer jobs.Done()
			return models.Unload(lease)
		},
		func(bytes int64, err error) any { return &unloaded{incarnation, lease, bytes, err} })
}

// resize starts a job that changes the number of KV blocks.
func (d *device) resize(ctx actor.Context, e core.Resize) {
	models, incarnation, changes := d.Models, d.incarnation, &d.changes
	changes.Add(1)
	supervise.Job(ctx, d.lifetime,
		func(life context.Context) (residency.Loaded, error) {
			defer changes.Done()
			if err := life.Err(); err != nil {
				return residency.Loaded{}, err
			}
			return models.Resize(e.Lease, e.Blocks)
		},
		func(m residency.Loaded, err error) any { return &resized{incarnation, e.Lease, e.Attempt, m, err} })
}

// allocate starts a job that allocates memory for adapters.
func (d *device) allocate(ctx actor.Context, e core.Allocate) {
	models, incarnation, changes := d.Models, d.incarnation, &d.changes
	changes.Add(1)
	supervise.Job(ctx, d.lifetime,
		func(context.Context) (residency.Loaded, error) {
			defer changes.Done()
			return models.LeaseAdapters(e.Lease, e.Pages, e.Min)
		},
		func(m residency.Loaded, err error) any {
			return &adaptersLeased{incarnation, e.Lease, e.Attempt, m, err}
		})
}

// changePages starts a job that changes the number of pages for adapters.
func (d *device) changePages(ctx actor.Context, e core.ChangePages) {
	models, incarnation, changes := d.Models, d.incarnation, &d.changes
	changes.Add(1)
	supervise.Job(ctx, d.lifetime,
		func(context.Context) (residency.Loaded, error) {
			defer changes.Done()
			return models.ResizeAdapters(e.Lease, e.Pages)
		},
		func(m residency.Loaded, err error) any {
			return &pagesChanged{incarnation, e.Lease, e.Attempt, m, err}
		})
}

// observeAfter observes the device after a delay.
func (d *device) observeAfter(ctx actor.Context, delay time.Duration) {
	if delay == 0 {
		d.observe(ctx)
		return
	}
	supervise.After(ctx, delay, &observeNow{d.incarnation})
}

// observe starts a job that observes the device.
func (d *device) observe(ctx actor.Context) {
	source, incarnation := d.Health, d.incarnation
	supervise.Job(ctx, d.lifetime,
		func(context.Context) (health.Observation, error) { return source.Health(), nil },
		func(o health.Observation, err error) any { return &observed{incarnation, o, err} })
}

// selfTest starts a job that tests the device.
func (d *device) selfTest(ctx actor.Context) {
	test, incarnation := d.SelfTest, d.incarnation
	supervise.Job(ctx, d.lifetime,
		func(life context.Context) (struct{}, error) { return struct{}{}, test(life) },
		func(_ struct{}, err error) any { return &tested{incarnation, err} })
}
