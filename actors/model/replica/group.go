package replica

import (
	"cmp"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/messages"
)

// GroupConfig is fixed for the life of the group and shared by its restarts.
type GroupConfig struct {
	Node string // its name
	// Replica returns the recipe of a child. The group stands for its deployment, wherever that lives.
	Replica  func(spec *messages.ReplicaSpec, deployment *actor.PID) *actor.Props
	GPU      func(gpu string) *actor.PID
	Fence    *Fence
	Strategy actor.SupervisorStrategy
	Log      zerolog.Logger
}

// GroupProps returns the recipe for the group that supervises a node's replicas. It starts and stops them by the
// deployments' command and does nothing else, so that it has little to crash on. It refuses a command of an older reign
// than it has heard of. What it knows of its children is what the deployments asked for; after a crash of the group, which
// stops all replicas, they ask again.
func GroupProps(cfg GroupConfig) *actor.Props {
	return supervise.Props(func() actor.Actor { return &group{GroupConfig: cfg} }, actor.WithSupervisor(cfg.Strategy))
}

type group struct {
	GroupConfig
	replicas    map[string]*child           // name -> the replica
	stopping    map[string]*stoppingReplica // name -> who waits for it to be gone
	deployments map[string]*actor.PID       // model -> who is told of everything that happens to its replicas
}

type child struct {
	spec *messages.ReplicaSpec
	pid  *actor.PID
}

// leaver is a replica that is being stopped; then its lease is given back.
type stoppingReplica struct {
	gpu        string
	requesters []requester
}

type requester struct {
	requestID string
	replyTo   *actor.PID
}

func (g *group) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		g.replicas = make(map[string]*child)
		g.stopping = make(map[string]*stoppingReplica)
		g.deployments = make(map[string]*actor.PID)
	case *messages.StartReplica:
		g.onStart(ctx, msg)
	case *messages.DrainReplica:
		g.onDrain(ctx, msg)
	case *messages.StopReplica:
		g.onStop(ctx, msg)
	case *messages.UnloadModelResult:
		g.onUnloaded(ctx, msg)
	case *messages.RestartReplica:
		g.onRestart(ctx, msg)
	case *messages.ListReplicas:
		g.onList(ctx, msg)
	case *messages.ReplicaChanged:
		g.forward(ctx, msg.GetStatus().GetName())
	case *messages.ReplicaDrained:
		g.forward(ctx, msg.GetReplica())
	case *actor.Terminated:
		g.onTerminated(ctx, msg)
	}
}

// pass gives a replica's report on to its deployment.
func (g *group) forward(ctx actor.Context, replica string) {
	if m := g.replicas[replica]; m != nil {
		if to := g.deployments[m.spec.GetModel()]; to != nil {
			ctx.Forward(to)
		}
	}
}

func (g *group) onStart(ctx actor.Context, msg *messages.StartReplica) {
	spec, id := msg.GetReplica(), msg.GetRequestId()
	if stale := g.Fence.Check(spec.GetModel(), msg.GetTerm()); stale != nil {
		ctx.Respond(startRefused(id, stale))
		return
	}
	if g.stopping[spec.GetName()] != nil {
		ctx.Respond(startRefused(id, refusal(messages.Reason_REASON_NOT_READY,
			"replica "+spec.GetName()+" is being stopped", retryAfter)))
		return
	}
	g.deployments[spec.GetModel()] = pidOf(msg.GetDeployment())
	m, ok := g.replicas[spec.GetName()]
	if !ok {
		pid, err := ctx.SpawnNamed(g.Replica(spec, ctx.Self()), spec.GetName())
		if err != nil {
			ctx.Respond(startRefused(id, refusal(messages.Reason_REASON_INTERNAL,
				"replica "+spec.GetName()+": "+err.Error(), retryAfter)))
			return
		}
		m = &child{spec: spec, pid: pid}
		g.replicas[spec.GetName()] = m
	}
	ctx.Respond(&messages.StartReplicaResult{RequestId: id,
		Outcome: &messages.StartReplicaResult_Started{Started: m.started()}})
}

func (m *child) started() *messages.ReplicaStarted {
	return &messages.ReplicaStarted{
		Replica: m.spec.GetName(), Spec: m.spec, Actor: &messages.ActorRef{Address: m.pid.GetAddress(),
			Id: m.pid.GetId()},
	}
}

func (g *group) onDrain(ctx actor.Context, msg *messages.DrainReplica) {
	if m := g.replicas[msg.GetReplica()]; m != nil && g.Fence.Check(m.spec.GetModel(), msg.GetTerm()) == nil {
		ctx.Request(m.pid, msg)
	}
}

// onStop stops a replica, then gives its lease back. Both are done again when asked again.
func (g *group) onStop(ctx actor.Context, msg *messages.StopReplica) {
	if stale := g.Fence.Check(msg.GetModel(), msg.GetTerm()); stale != nil {
		ctx.Respond(&messages.StopReplicaResult{RequestId: msg.GetRequestId(),
			Outcome: &messages.StopReplicaResult_Refused{Refused: stale}})
		return
	}
	l := g.stopping[msg.GetReplica()]
	if l == nil {
		l = &stoppingReplica{gpu: msg.GetGpu()}
		g.stopping[msg.GetReplica()] = l
	}
	l.addRequester(requester{msg.GetRequestId(), ctx.Sender()})
	if m := g.replicas[msg.GetReplica()]; m != nil {
		l.gpu = m.spec.GetGpu()
		ctx.Stop(m.pid)
		return
	}
	g.unload(ctx, msg.GetReplica(), l)
}

// join adds one who waits; asking again replaces the first.
func (l *stoppingReplica) addRequester(who requester) {
	for i, a := range l.requesters {
		if a.requestID == who.requestID {
			l.requesters[i] = who
			return
		}
	}
	l.requesters = append(l.requesters, who)
}

func (g *group) unload(ctx actor.Context, replica string, l *stoppingReplica) {
	ctx.Request(g.GPU(l.gpu), &messages.UnloadModel{RequestId: replica, Lease: replica})
}

func (g *group) onUnloaded(ctx actor.Context, msg *messages.UnloadModelResult) {
	l := g.stopping[msg.GetRequestId()]
	if l == nil || msg.GetUnloaded() == nil {
		return // it is asked again
	}
	delete(g.stopping, msg.GetRequestId())
	for _, a := range l.requesters {
		ctx.Send(a.replyTo, &messages.StopReplicaResult{RequestId: a.requestID,
			Outcome: &messages.StopReplicaResult_Stopped{
				Stopped: &messages.ReplicaStopped{Replica: msg.GetRequestId()},
			}})
	}
}

// onRestart restarts a replica as a crash would: its sessions are told, its weights stay.
func (g *group) onRestart(ctx actor.Context, msg *messages.RestartReplica) {
	m, ok := g.replicas[msg.GetReplica()]
	if !ok || g.stopping[msg.GetReplica()] != nil {
		ctx.Respond(&messages.RestartReplicaResult{RequestId: msg.GetRequestId(),
			Outcome: &messages.RestartReplicaResult_Refused{
				Refused: refusal(messages.Reason_REASON_NOT_FOUND,
					"no replica "+msg.GetReplica()+" on this node; see replicas.list", 0),
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
		if l := g.stopping[name]; l != nil {
			g.unload(ctx, name, l)
		}
	}
}

// onList answers with the replicas of a model, or all. A deployment that asks takes them over.
func (g *group) onList(ctx actor.Context, msg *messages.ListReplicas) {
	result := &messages.ListReplicasResult{Node: g.Node}
	if msg.GetDeployment() != nil {
		if result.Refused = g.Fence.Check(msg.GetModel(), msg.GetTerm()); result.Refused != nil {
			ctx.Respond(result)
			return
		}
		g.deployments[msg.GetModel()] = pidOf(msg.GetDeployment())
	}
	for name, m := range g.replicas {
		if g.stopping[name] == nil && (msg.GetModel() == "" || m.spec.GetModel() == msg.GetModel()) {
			result.Replicas = append(result.Replicas, m.started())
		}
	}
	slices.SortFunc(result.Replicas, func(a, b *messages.ReplicaStarted) int {
		return cmp.Compare(a.GetReplica(),
			b.GetReplica())
	})
	ctx.Respond(result)
}

func pidOf(ref *messages.ActorRef) *actor.PID { return actor.NewPID(ref.GetAddress(), ref.GetId()) }

func startRefused(id string, r *messages.Refused) *messages.StartReplicaResult {
	return &messages.StartReplicaResult{RequestId: id, Outcome: &messages.StartReplicaResult_Refused{Refused: r}}
}
