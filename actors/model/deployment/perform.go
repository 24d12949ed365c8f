package deployment

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	core "troupe/core/deployment"
	"troupe/core/residency"
	"troupe/messages"
)

// perform carries out effects, in order.
func (d *deployment) perform(ctx actor.Context, effects []core.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case core.AskSpec:
			ctx.Request(ctx.Parent(), &messages.GetDeploymentSpec{Name: d.Name})
		case core.ListReplicas:
			ctx.Request(d.Replicas(d.members[e.Node]), &messages.ListReplicas{
				RequestId: d.Name, Model: d.Name, Term: d.Term, Deployment: selfRef(ctx),
			})
		case core.AskGPU:
			ctx.Request(d.GPU(d.members[e.At.Node], e.At.GPU), &messages.GetGpu{RequestId: d.Name})
		case core.Inspect:
			d.inspect(ctx, e.Engine, e.Path)
		case core.StartReplica:
			ctx.Request(d.Replicas(d.members[e.Spec.At.Node]), &messages.StartReplica{
				RequestId: e.Spec.Name, Replica: replicaSpec(e.Spec), Deployment: selfRef(ctx), Term: d.Term,
			})
		case core.AskReplica:
			ctx.Request(pidOf(e.Actor), &messages.GetReplica{RequestId: e.Replica})
		case core.ConfirmRevision:
			ctx.Send(pidOf(e.Actor), &messages.ConfirmRevision{RevisionDigest: e.Digest})
		case core.Record:
			d.record(ctx, e)
		case core.StoreLevel:
			d.storeLevel(ctx, e)
		case core.DrainReplica:
			ctx.Request(d.Replicas(d.members[e.Node]), &messages.DrainReplica{
				RequestId: e.Replica, Replica: e.Replica, Model: d.Name, Term: d.Term,
			})
		case core.SetLevel:
			ctx.Send(d.Replicas(d.members[e.Node]), &messages.SetReplicaLevel{
				Replica: e.Replica, Model: d.Name, Term: d.Term, Level: levelOf(e.Standby),
			})
		case core.MigrateSequences:
			ctx.Request(pidOf(e.Actor), &messages.MigrateSequences{
				RequestId: e.Request, Target: e.Target, TargetActor: actorRef(e.TargetActor), Term: d.Term,
				Cause: e.Cause,
			})
		case core.SaveSequences:
			ctx.Request(d.Replicas(d.members[e.Node]), &messages.SaveSequences{
				RequestId: e.Replica, Replica: e.Replica, Model: d.Name, Term: d.Term,
			})
		case core.PreemptAfter:
			supervise.After(ctx, e.After, &preemptTimer{d.incarnation, e.Replica})
		case core.StopReplica:
			ctx.Request(d.Replicas(d.members[e.At.Node]), &messages.StopReplica{
				RequestId: e.Request, Replica: e.Replica, Model: d.Name, Gpu: e.At.GPU, Term: d.Term,
				Fate: fates[e.Weights],
			})
		case core.Watch:
			ctx.Watch(pidOf(e.Actor))
		case core.Announce:
			d.observeWake(ctx)
			d.publishStatus(ctx)
		case core.Gone:
			ctx.Send(ctx.Parent(), &removed{d.Name, d.Term})
		default:
			d.notice(effect)
		}
	}
}

// fates are what becomes of the weights of a replica that is stopped.
var fates = map[residency.Fate]messages.WeightsFate{
	residency.Spare: messages.WeightsFate_WEIGHTS_FATE_SPARE,
	residency.Drop:  messages.WeightsFate_WEIGHTS_FATE_DROP,
	residency.Park:  messages.WeightsFate_WEIGHTS_FATE_PARK,

	residency.ParkOrKeep: messages.WeightsFate_WEIGHTS_FATE_PARK_OR_KEEP,
}

// notice logs and publishes what happened to the deployment.
func (d *deployment) notice(effect core.Effect) {
	log := d.Log.With().Str("model", d.Name).Logger()
	switch e := effect.(type) {
	case core.Placed:
		d.Log.Info().Str("replica", e.Replica).Str("gpu", e.At.String()).Str("why", e.Why).Msg("replica placed")
		d.Publish("replica.placed", e.Replica, e.Why)
	case core.Retiring:
		d.Log.Info().Str("replica", e.Replica).Str("why", e.Why).Msg("replica draining")
		d.Publish("replica.draining", e.Replica, e.Why)
	case core.Preempting:
		d.noticePreemption(e)
	case core.Serving:
		d.Publish("replica.serving", e.Replica, "on "+e.At.String())
	case core.Stopped:
		d.Publish("replica.stopped", e.Replica, "memory freed")
	case core.Lost:
		d.Log.Warn().Str("replica", e.Replica).Str("on", e.Node).Msg("replica lost with its node")
		d.Publish("replica.lost", e.Replica, "its node "+e.Node+" has left")
	case core.Terminated:
		d.Log.Warn().Str("replica", e.Replica).Str("why", e.Why).Msg("replica terminated")
		d.Publish("replica.lost", e.Replica, "crashed too often, or its node was lost")
	case core.Faulty:
		d.Log.Warn().Str("replica", e.Replica).Str("why", e.Why).Msg("replica is faulty; replacing it")
		d.Publish("replica.replaced", e.Replica, e.Why)
	case core.Failed:
		log.Warn().Stringer("reason", messages.Reason(e.Failure.Reason)).Str("detail", e.Failure.Detail).
			Msg("deployment failed")
		d.Publish("model.failed", d.Name, e.Failure.Detail)
	case core.WeightsDiffer:
		d.Publish("model.weights_differ", d.Name, e.Detail)
	case core.Ready:
		d.Publish("model.ready", d.Name, fmt.Sprintf("%d of %d replicas serve", e.Replicas, e.Replicas))
	case core.FencedOff:
		log.Warn().Uint64("term", d.Term).Str("detail", e.Detail).Msg("deployment fenced by a later term")
	case core.Ignored:
		log.Debug().Stringer("state", e.State).Str("replica", e.Replica).Stringer("phase", e.Phase).
			Stringer("trigger", e.Trigger).Msg("event ignored")
	default:
		panic(fmt.Sprintf("deployment: unknown effect %T", effect))
	}
}
