package router

import (
	"context"
	"maps"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/demand"
	"troupe/messages"
)

// mergedAtOnce is the number of reports on a model that a router merges in its own thread: a gateway of each of three
// nodes that reports 8 models. That takes less than 1 ms; a thousand models take 100 ms.
const mergedAtOnce = 24

// views are the requests for views that wait for a job. A job merges the demand for many models, during which the
// router could route no request. There is one at a time.
type views struct {
	merging bool         // a job is under way
	asked   []*actor.PID // wait for the next job
}

// viewed is a message to self: a view is complete.
type viewed struct {
	incarnation uint64
	view        *messages.ClusterView
	to          []*actor.PID
	err         error
}

func (r *router) onGetView(ctx actor.Context) {
	switch {
	case r.views.merging:
		r.views.asked = append(r.views.asked, ctx.Sender())
	case r.reports.demand.models() <= mergedAtOnce:
		view := r.clusterView()
		r.reports.demand.addTo(view)
		ctx.Respond(view)
	default:
		r.mergeFor(ctx, []*actor.PID{ctx.Sender()})
	}
}

// mergeFor starts a job that adds the demand to a view of this moment.
func (r *router) mergeFor(ctx actor.Context, to []*actor.PID) {
	view, all := r.clusterView(), maps.Clone(r.reports.demand)
	note := viewed{incarnation: r.incarnation, view: view, to: to}
	r.views = views{merging: true}
	supervise.Job(ctx, context.Background(),
		func(context.Context) (struct{}, error) {
			all.addTo(view)
			return struct{}{}, nil
		},
		func(_ struct{}, err error) any {
			note.err = err
			return &note
		})
}

func (r *router) onViewed(ctx actor.Context, msg *viewed) {
	if msg.incarnation != r.incarnation {
		return
	}
	if msg.err != nil {
		panic(msg.err)
	}
	for _, to := range msg.to {
		if to != nil {
			ctx.Send(to, msg.view)
		}
	}
	if r.views.merging = false; len(r.views.asked) > 0 {
		r.mergeFor(ctx, r.views.asked)
	}
}

// models returns the number of reports on a model.
func (g gateways) models() (n int) {
	for _, d := range g {
		n += len(d.models)
	}
	return n
}

// addTo adds the demand to a view.
func (g gateways) addTo(view *messages.ClusterView) {
	var f demand.Figures
	for _, s := range view.GetDeployments() {
		s.Demand = g.demandOf(s, &f)
	}
}
