package gateway

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	"troupe/core/demand"
	"troupe/messages"
)

// demandInterval is how often the gateway reports the demand to its node's router.
const demandInterval = time.Second

// demandRecord is what the sequences of this gateway ask of each model. It is safe for concurrent use, and
// outlives the gateway actor, which reports it.
type demandRecord struct {
	mu      sync.Mutex
	began   time.Time // of the observation
	windows map[string]*demand.Window
}

// begin starts the observation, unless it has started.
func (d *demandRecord) begin(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.began.IsZero() {
		d.began = now
	}
}

// record records an event of a model.
func (d *demandRecord) record(model string, now time.Time, event func(*demand.Window)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.began.IsZero() {
		d.began = now
	}
	if d.windows == nil {
		d.windows = make(map[string]*demand.Window)
	}
	if d.windows[model] == nil {
		d.windows[model] = demand.NewWindow(d.began)
	}
	event(d.windows[model])
}

// demand records an event of a generation's model.
func (g *Gateway) demand(gen *generation, event func(w *demand.Window, now time.Time)) {
	now := gen.rt.Now()
	g.cfg.Calls.demand.record(gen.deployment, now, func(w *demand.Window) { event(w, now) })
}

// firstTokens records the first delivery to a choice.
func (g *Gateway) firstTokens(gen *generation, c *choice) {
	c.firstTokens = gen.rt.Now()
	if c.index == 0 {
		g.demand(gen, func(w *demand.Window, now time.Time) { w.FirstToken(now, now.Sub(gen.began)) })
	}
}

// sequenceFinished records a choice that has all its tokens.
func (g *Gateway) sequenceFinished(gen *generation, c *choice) {
	g.demand(gen, func(w *demand.Window, now time.Time) {
		w.Finished(now, len(c.prompt), c.decoded+c.endTokens, now.Sub(c.firstTokens))
	})
	if gen.adapter == nil {
		return
	}
	if gen.metrics.adapterSequences.Inc(); g.cfg.AdapterServed != nil {
		g.cfg.AdapterServed(gen.adapter)
	}
}

// report returns the demand for each model within the last window, by name.
func (d *demandRecord) report(now time.Time) *messages.DemandReported {
	d.mu.Lock()
	defer d.mu.Unlock()
	report := &messages.DemandReported{Observed: durationpb.New(min(now.Sub(d.began), demand.Length))}
	for _, model := range slices.Sorted(maps.Keys(d.windows)) {
		f := d.windows[model].Figures(now)
		if f.Empty() {
			delete(d.windows, model)
			continue
		}
		report.Models = append(report.Models, &messages.ModelDemand{
			Model: model, Arrivals: f.Arrivals, Recent: f.Recent, Finished: f.Finished, Refused: f.Refused,
			Ttft: f.TTFT.Encode(), Tpot: f.TPOT.Encode(),
			PromptTokens: f.Prompt.Encode(), OutputTokens: f.Output.Encode(),
		})
	}
	return report
}

// demandDue is a message to self.
type demandDue struct{ incarnation uint64 }

// onDemandDue reports the demand to the router, unless the last report is still right: without demand for
// any model, over a whole window.
func (g *gatewayActor) onDemandDue(ctx actor.Context, msg *demandDue) {
	if msg.incarnation != g.incarnation {
		return
	}
	supervise.After(ctx, demandInterval, msg)
	report := g.Calls.demand.report(supervise.Now(ctx))
	if len(report.GetModels()) > 0 || !g.noDemand {
		ctx.Send(g.Router, report)
	}
	g.noDemand = len(report.GetModels()) == 0 && report.GetObserved().AsDuration() >= demand.Length
}
