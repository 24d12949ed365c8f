package replica

import (
	"cmp"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/messages"
)

// GroupConfig is fixed for the life of the group and shared by its restarts.
type GroupConfig struct {
	// Replica returns the recipe of a child.
	Replica  func(spec *messages.ReplicaSpec, deployment *actor.PID) *actor.Props
	Strategy actor.SupervisorStrategy
	Log      zerolog.Logger
}

// GroupProps returns the recipe for the group that supervises a node's replicas. It starts and stops them by the
// deployments' command and does nothing else, so that it has little to crash on. What it knows of its children is what
// the deployments asked for; after a crash of the group, which stops all replicas, they ask again.
func GroupProps(cfg GroupConfig) *actor.Props {
	return actor.PropsFromProducer(func() actor.Actor { return &group{GroupConfig: cfg} }, actor.WithSupervisor(cfg.Strategy))
}

type group struct {
	GroupConfig
	replicas map[string]*member // name -> the replica
}

type member struct {
	spec    *messages.ReplicaSpec
	pid     *actor.PID
	askers  []asker // who waits for it to be gone
	leaving bool
}

type asker struct {
	requestID string
	replyTo   *actor.PID
}

func (g *group) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		g.replicas = make(map[string]*member)
	case *messages.StartReplica:
		g.onStart(ctx, msg)
	case *messages.StopReplica:
		g.onStop(ctx, msg)
	case *messages.RestartReplica:
		g.onRestart(ctx, msg)
	case *messages.ListReplicas:
		ctx.Respond(g.list(msg.GetModel()))
	case *actor.Terminated:
		g.onTerminated(ctx, msg)
	}
}

func (g *group) onStart(ctx actor.Context, msg *messages.StartReplica) {
	spec, id := msg.GetReplica(), msg.GetRequestId()
	m, ok := g.replicas[spec.GetName()]
	if ok && m.leaving {
		ctx.Respond(refusedStart(id, refusal(messages.Reason_REASON_NOT_READY, "replica "+spec.GetName()+" is just being stopped", retryAfter)))
		return
	}
	if !ok {
		deployment := actor.NewPID(msg.GetDeployment().GetAddress(), msg.GetDeployment().GetId())
		pid, err := ctx.SpawnNamed(g.Replica(spec, deployment), spec.GetName())
		if err != nil {
			ctx.Respond(refusedStart(id, refusal(messages.Reason_REASON_INTERNAL, "replica "+spec.GetName()+": "+err.Error(), retryAfter)))
			return
		}
		m = &member{spec: spec, pid: pid}
		g.replicas[spec.GetName()] = m
	}
	ctx.Respond(&messages.StartReplicaResult{RequestId: id, Outcome: &messages.StartReplicaResult_Started{Started: m.started()}})
}

func (m *member) started() *messages.ReplicaStarted {
	return &messages.ReplicaStarted{
		Replica: m.spec.GetName(), Spec: m.spec, Actor: &messages.ActorRef{Address: m.pid.GetAddress(), Id: m.pid.GetId()},
	}
}

func (g *group) onStop(ctx actor.Context, msg *messages.StopReplica) {
	m, ok := g.replicas[msg.GetReplica()]
	if !ok {
		ctx.Send(ctx.Sender(), stopped(msg.GetRequestId(), msg.GetReplica()))
		return
	}
	m.leaving = true
	m.askers = append(m.askers, asker{msg.GetRequestId(), ctx.Sender()})
	ctx.Stop(m.pid)
}

// onRestart restarts a replica as a crash would: its sessions are told, its weights stay.
func (g *group) onRestart(ctx actor.Context, msg *messages.RestartReplica) {
	m, ok := g.replicas[msg.GetReplica()]
	if !ok || m.leaving {
		ctx.Respond(&messages.RestartReplicaResult{RequestId: msg.GetRequestId(), Outcome: &messages.RestartReplicaResult_Refused{
			Refused: refusal(messages.Reason_REASON_NOT_FOUND, "no replica "+msg.GetReplica()+" on this node; see replicas.list", 0),
		}})
		return
	}
	ctx.(actor.Supervisor).RestartChildren(m.pid)
	ctx.Respond(&messages.RestartReplicaResult{
		RequestId: msg.GetRequestId(), Outcome: &messages.RestartReplicaResult_Started{Started: m.started()},
	})
}

// onTerminated: a replica is gone, as asked or because it crashed too often. Its deployment watches it and decides.
func (g *group) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	for name, m := range g.replicas {
		if !m.pid.Equal(msg.GetWho()) {
			continue
		}
		delete(g.replicas, name)
		for _, a := range m.askers {
			ctx.Send(a.replyTo, stopped(a.requestID, name))
		}
	}
}

func (g *group) list(model string) *messages.ListReplicasResult {
	result := &messages.ListReplicasResult{}
	for _, m := range g.replicas {
		if model == "" || m.spec.GetModel() == model {
			result.Replicas = append(result.Replicas, m.started())
		}
	}
	slices.SortFunc(result.Replicas, func(a, b *messages.ReplicaStarted) int { return cmp.Compare(a.GetReplica(), b.GetReplica()) })
	return result
}

func refusedStart(id string, r *messages.Refused) *messages.StartReplicaResult {
	return &messages.StartReplicaResult{RequestId: id, Outcome: &messages.StartReplicaResult_Refused{Refused: r}}
}

func stopped(id, name string) *messages.StopReplicaResult {
	return &messages.StopReplicaResult{RequestId: id, Outcome: &messages.StopReplicaResult_Stopped{
		Stopped: &messages.ReplicaStopped{Replica: name},
	}}
}
