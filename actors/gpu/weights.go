package gpu

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	core "troupe/core/device"
	weights "troupe/core/residency"
	"troupe/core/units"
	"troupe/messages"
)

// imageRequestTimeout is how long a load waits for the host cache. Then it does without an image.
const imageRequestTimeout = time.Second

// imageRequest is a request to the host cache. Exactly one of the two waits for its answer.
type imageRequest struct {
	load *core.LoadWeights
	park *core.FreeWeights
}

// parkResult is how weights that were to be parked left the device, or that they stayed.
type parkResult struct {
	source weights.Source
	onDisk string // why they are in an image on disk; empty: they are in the host cache
	cold   string // why they are in no image; empty: they are in one
	kept   bool
}

// loadWeights gets a ticket for an image, and then starts a job that loads weights.
func (d *device) loadWeights(ctx actor.Context, e core.LoadWeights) {
	if d.HostCache == nil {
		d.startLoad(ctx, e, "")
		return
	}
	d.requestImage(ctx, e.Source, false, imageRequest{load: &e})
}

// freeWeights starts a job that frees weights. Before, it gets a ticket for an image of those that are
// to be parked.
func (d *device) freeWeights(ctx actor.Context, e core.FreeWeights) {
	switch {
	case !e.Park:
		d.startFree(ctx, e, "", nil)
	case d.HostCache == nil:
		why := "this node has no host cache; start it with --weights-dram, or --weights-images"
		d.startFree(ctx, e, "", &parkResult{source: e.Source, cold: why})
	default:
		d.requestImage(ctx, e.Source, !e.OrKeep, imageRequest{park: &e}) // an image on disk is no reason to leave
	}
}

func (d *device) requestImage(ctx actor.Context, s weights.Source, park bool, r imageRequest) {
	d.asked++
	id := fmt.Sprintf("%s-%d-%d", d.Name, d.incarnation, d.asked)
	d.images[id] = r
	ctx.Request(d.HostCache, &messages.UseImage{
		RequestId: id, Model: s.Model, Path: s.Path, RevisionDigest: s.Digest(), Layout: s.Layout,
		Bytes: uint64(s.Bytes), Park: park,
	})
	supervise.After(ctx, imageRequestTimeout, &imageTimeout{d.incarnation, id})
}

func (d *device) onImage(ctx actor.Context, msg *messages.UseImageResult) {
	d.imageAnswered(ctx, msg)
}

func (d *device) onImageTimeout(ctx actor.Context, msg *imageTimeout) {
	if msg.incarnation == d.incarnation {
		d.imageAnswered(ctx, &messages.UseImageResult{
			RequestId: msg.request, Refused: &messages.Refused{Detail: "the host cache does not answer"},
		})
	}
}

// imageAnswered continues what waited for the host cache. Without a ticket, weights are loaded from
// their folder, and those that were to be parked are only freed. A late answer is ignored; its ticket
// ends by itself.
func (d *device) imageAnswered(ctx actor.Context, msg *messages.UseImageResult) {
	r, ok := d.images[msg.GetRequestId()]
	if !ok {
		return
	}
	delete(d.images, msg.GetRequestId())
	ticket, why := msg.GetTicket(), msg.GetRefused().GetDetail()
	if r.load != nil {
		if ticket == "" {
			d.Log.Info().Str("model", r.load.Source.Model).Str("why", why).Msg("loading weights without an image")
		}
		d.startLoad(ctx, *r.load, ticket)
		return
	}
	result := &parkResult{source: r.park.Source, cold: why}
	if msg.GetOnDisk() {
		result.onDisk, result.cold = why, ""
	}
	d.startFree(ctx, *r.park, ticket, result)
}

// startLoad starts a job that loads weights.
func (d *device) startLoad(ctx actor.Context, e core.LoadWeights, ticket string) {
	models, incarnation, jobs := d.Models, d.incarnation, &d.jobs
	jobs.Add(1)
	supervise.Job(ctx, d.lifetime,
		func(life context.Context) (weights.Content, error) {
			defer jobs.Done()
			return models.LoadWeights(life, e.Copy, e.Source, ticket)
		},
		func(c weights.Content, err error) any { return &weightsLoaded{incarnation, e.Copy, c, err} })
}

// startFree starts a job that frees weights. With a ticket, it copies them to the host cache before.
// If that fails they are freed nevertheless, unless they are to be kept then or this incarnation has
// ended: the next one finds them on the device.
func (d *device) startFree(ctx actor.Context, e core.FreeWeights, ticket string, park *parkResult) {
	models, incarnation, jobs := d.Models, d.incarnation, &d.jobs
	jobs.Add(1)
	supervise.Job(ctx, d.lifetime,
		func(life context.Context) (*parkResult, error) {
			defer jobs.Done()
			if park == nil {
				return nil, models.FreeWeights(e.Copy)
			}
			result := *park
			if ticket != "" {
				result.cold = ""
				if err := models.ParkWeights(life, e.Copy, ticket); err != nil {
					result.cold = err.Error()
				}
			}
			if err := life.Err(); err != nil {
				return nil, err
			}
			if result.cold != "" && e.OrKeep {
				result.kept = true
				return &result, nil
			}
			return &result, models.FreeWeights(e.Copy)
		},
		func(p *parkResult, err error) any { return &weightsFreed{incarnation, e.Copy, p, err} })
}

func (d *device) onWeightsLoaded(ctx actor.Context, msg *weightsLoaded) {
	switch now := supervise.Now(ctx); {
	case msg.incarnation != d.incarnation:
	case msg.err != nil:
		f := failureOf(msg.err)
		d.perform(ctx, d.memory.WeightsFailed(msg.copy, f, now))
		if f.Unverified != nil && f.Cause == core.Other {
			d.performHealth(ctx, d.quarantine.Suspect("weights failed their check: "+f.Detail, now))
		}
	default:
		d.perform(ctx, d.memory.WeightsLoaded(msg.copy, msg.content, now))
	}
}

func (d *device) onWeightsFreed(ctx actor.Context, msg *weightsFreed) {
	switch now := supervise.Now(ctx); {
	case msg.incarnation != d.incarnation:
	case msg.err != nil:
		d.Log.Warn().Uint64("weights", msg.copy).Err(msg.err).Msg("freeing weights failed")
		d.perform(ctx, d.memory.WeightsNotFreed(msg.copy, now))
	case msg.park != nil && msg.park.kept:
		d.reportParked(msg.park)
		d.perform(ctx, d.memory.WeightsNotFreed(msg.copy, now))
	default:
		d.reportParked(msg.park)
		d.perform(ctx, d.memory.WeightsFreed(msg.copy, now))
	}
}

// reportSource logs and publishes where weights were loaded from, and why from there.
func (d *device) reportSource(e core.AnswerLoad) {
	if e.Adopted || e.Shared {
		return
	}
	m := e.Model
	d.Log.Info().Str("lease", m.Lease).Str("source", m.From).Str("why", m.FromWhy).Dur("verify", m.Verify).
		Msg("weights loaded")
	text := fmt.Sprintf("%s: %s from %s in %v%s, since %s", m.Lease, units.FormatBytes(m.Size.Weights), m.From,
		(e.Took - m.Verify).Round(time.Millisecond), floorText(m.Floor), m.FromWhy)
	if m.Verify > 0 {
		text += fmt.Sprintf("; verified in %v", m.Verify.Round(time.Microsecond))
	}
	d.publish("weights.loaded", text)
}

// reportParked logs and publishes how weights that were to be parked left the device.
func (d *device) reportParked(p *parkResult) {
	switch {
	case p == nil:
	case p.kept:
		d.Log.Info().Str("model", p.source.Model).Str("why", p.cold).Msg("weights kept on the device; not parked")
		d.publish("weights.kept", p.source.Model+": kept on "+d.Name+", since they could not be parked: "+p.cold)
	case p.cold != "":
		d.Log.Warn().Str("model", p.source.Model).Str("why", p.cold).Msg("weights not parked; they are cold")
		d.publish("weights.cold", p.source.Model+": not parked: "+p.cold)
	case p.onDisk != "":
		d.Log.Info().Str("model", p.source.Model).Str("why", p.onDisk).Msg("weights parked on disk")
		d.publish("weights.parked", fmt.Sprintf("%s: %s in an image on disk: %s", p.source.Model,
			units.FormatBytes(p.source.Bytes), p.onDisk))
	default:
		d.Log.Info().Str("model", p.source.Model).Int64("bytes", p.source.Bytes).Msg("weights parked")
		d.publish("weights.parked", p.source.Model+": "+units.FormatBytes(p.source.Bytes)+" in the host cache")
	}
}
