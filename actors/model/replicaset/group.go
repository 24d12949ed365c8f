package replicaset

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	"troupe/messages"
)

// retryAfter is the RetryAfter of refusals that end soon.
const retryAfter = 20 * time.Millisecond

// Config configures the group. It is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Node string // name of the node
	// Replica returns the props of a replica. Its deployment is the group, which forwards reports
	// to the deployment's current location.
	Replica  func(spec *messages.ReplicaSpec, deployment *actor.PID) *actor.Props
	GPU      func(gpu string) *actor.PID
	GPUs     []string // names of the node's gpu actors
	Fence    *Fence
	Strategy actor.SupervisorStrategy
	Log      zerolog.Logger
}

// Props returns the props of the group that supervises a node's replicas.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &group{Config: cfg, incarnation: incarnation}
	}, actor.WithSupervisor(cfg.Strategy))
}

type group struct {
	Config
	incarnation uint64
	replicas    map[string]*child           // by name
	stopping    map[string]*stoppingReplica // by name
	deployments map[string]*actor.PID       // by model: receives the reports of its replicas
	orphans     orphans
}

type child struct {
	spec *messages.ReplicaSpec
	pid  *actor.PID
}

// stoppingReplica is a replica that stops; afterwards its lease is released.
type stoppingReplica struct {
	gpu        string
	fate       messages.WeightsFate // of its weights
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
		g.orphans = make(orphans)
		supervise.After(ctx, checkLeasesEvery, &checkLeases{g.incarnation})
	case *messages.StartReplica:
		g.onStart(ctx, msg)
	case *messages.DrainReplica:
		g.onDrain(ctx, msg)
	case *messages.SetReplicaLevel:
		g.onSetLevel(ctx, msg)
	case *messages.SaveSequences:
		g.onSave(ctx, msg)
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
	case *messages.SequencesSaved:
		g.forward(ctx, msg.GetReplica())
	case *checkLeases:
		g.onCheckLeases(ctx, msg)
	case *messages.GpuStatus:
		g.onGPU(ctx, msg)
	case *actor.Terminated:
		g.onTerminated(ctx, msg)
	case *actor.DeadLetterResponse: // a gpu actor that has stopped; onCheckLeases asks again
	default:
		supervise.Unknown(ctx, "replicas")
	}
}

// forward forwards a replica's report to its deployment.
func (g *group) forward(ctx actor.Context, replica string) {
	if c := g.replicas[replica]; c != nil {
		if to := g.deployments[c.spec.GetModel()]; to != nil {
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
	c, ok := g.replicas[spec.GetName()]
	if !ok {
		pid, err := ctx.SpawnNamed(g.Replica(spec, ctx.Self()), spec.GetName())
		if err != nil {
			ctx.Respond(startRefused(id, refusal(messages.Reason_REASON_INTERNAL,
				"replica "+spec.GetName()+": "+err.Error(), retryAfter)))
			return
		}
		c = &child{spec: spec, pid: pid}
		g.replicas[spec.GetName()] = c
	}
	ctx.Respond(&messages.StartReplicaResult{RequestId: id,
		Outcome: &messages.StartReplicaResult_Started{Started: c.started()}})
}

func (c *child) started() *messages.ReplicaStarted {
	return &messages.ReplicaStarted{
		Replica: c.spec.GetName(), Spec: c.spec,
		Actor: &messages.ActorRef{Address: c.pid.GetAddress(), Id: c.pid.GetId()},
	}
}

func (g *group) onDrain(ctx actor.Context, msg *messages.DrainReplica) {
	if c := g.replicas[msg.GetReplica()]; c != nil && g.Fence.Check(c.spec.GetModel(), msg.GetTerm()) == nil {
		ctx.Request(c.pid, msg)
	}
}

func (g *group) onSetLevel(ctx actor.Context, msg *messages.SetReplicaLevel) {
	if c := g.replicas[msg.GetReplica()]; c != nil && g.Fence.Check(c.spec.GetModel(), msg.GetTerm()) == nil {
		ctx.Send(c.pid, msg)
	}
}

func (g *group) onSave(ctx actor.Context, msg *messages.SaveSequences) {
	if c := g.replicas[msg.GetReplica()]; c != nil && g.Fence.Check(c.spec.GetModel(), msg.GetTerm()) == nil {
		ctx.Request(c.pid, msg)
	}
}

// onStop stops a replica and then releases its lease. A repeated request repeats both.
func (g *group) onStop(ctx actor.Context, msg *messages.StopReplica) {
	if stale := g.Fence.Check(msg.GetModel(), msg.GetTerm()); stale != nil {
		ctx.Respond(&messages.StopReplicaResult{RequestId: msg.GetRequestId(),
			Outcome: &messages.StopReplicaResult_Refused{Refused: stale}})
		return
	}
	s := g.stopping[msg.GetReplica()]
	if s == nil {
		s = &stoppingReplica{gpu: msg.GetGpu()}
		g.stopping[msg.GetReplica()] = s
	}
	s.fate = max(s.fate, msg.GetFate())
	s.addRequester(requester{msg.GetRequestId(), ctx.Sender()})
	if c := g.replicas[msg.GetReplica()]; c != nil {
		s.gpu = c.spec.GetGpu()
		ctx.Stop(c.pid)
		return
	}
	g.unload(ctx, msg.GetReplica(), s)
}

// addRequester adds a requester. A repeated request replaces the earlier one.
func (s *stoppingReplica) addRequester(from requester) {
	for i, known := range s.requesters {
		if known.requestID == from.requestID {
			s.requesters[i] = from
			return
		}
	}
	s.requesters = append(s.requesters, from)
}

func (g *group) unload(ctx actor.Context, replica string, s *stoppingReplica) {
	ctx.Request(g.GPU(s.gpu), &messages.UnloadModel{RequestId: replica, Lease: replica, Fate: s.fate})
}

func (g *group) onUnloaded(ctx actor.Context, msg *messages.UnloadModelResult) {
	s := g.stopping[msg.GetRequestId()]
	if s == nil || msg.GetUnloaded() == nil {
		return // the requester repeats StopReplica
	}
	delete(g.stopping, msg.GetRequestId())
	for _, from := range s.requesters {
		ctx.Send(from.replyTo, &messages.StopReplicaResult{RequestId: from.requestID,
			Outcome: &messages.StopReplicaResult_Stopped{
				Stopped: &messages.ReplicaStopped{Replica: msg.GetRequestId()},
			}})
	}
}

// onRestart restarts a replica as after a crash: its sequences are interrupted, its weights stay
// loaded.
func (g *group) onRestart(ctx actor.Context, msg *messages.RestartReplica) {
	c, ok := g.replicas[msg.GetReplica()]
	if !ok || g.stopping[msg.GetReplica()] != nil {
		ctx.Respond(&messages.RestartReplicaResult{RequestId: msg.GetRequestId(),
			Outcome: &messages.RestartReplicaResult_Refused{
				Refused: refusal(messages.Reason_REASON_NOT_FOUND,
					"no replica "+msg.GetReplica()+" on this node; see replicas.list", 0),
			}})
		return
	}
	ctx.(actor.Supervisor).RestartChildren(c.pid)
	ctx.Respond(&messages.RestartReplicaResult{
		RequestId: msg.GetRequestId(), Outcome: &messages.RestartReplicaResult_Started{Started: c.started()},
	})
}

// onTerminated removes a replica that was stopped or has crashed too often. Its deployment watches
// the replica too, and decides what follows.
func (g *group) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	for _, name := range slices.Sorted(maps.Keys(g.replicas)) {
		if !g.replicas[name].pid.Equal(msg.GetWho()) {
			continue
		}
		delete(g.replicas, name)
		if s := g.stopping[name]; s != nil {
			g.unload(ctx, name, s)
		}
	}
}

// onList answers with the replicas of a model, or with all. A deployment that asks for its replicas
// receives their reports from then on.
func (g *group) onList(ctx actor.Context, msg *messages.ListReplicas) {
	result := &messages.ListReplicasResult{Node: g.Node}
	if msg.GetDeployment() != nil {
		if result.Refused = g.Fence.Check(msg.GetModel(), msg.GetTerm()); result.Refused != nil {
			ctx.Respond(result)
			return
		}
		g.deployments[msg.GetModel()] = pidOf(msg.GetDeployment())
	}
	for name, c := range g.replicas {
		if g.stopping[name] == nil && (msg.GetModel() == "" || c.spec.GetModel() == msg.GetModel()) {
			result.Replicas = append(result.Replicas, c.started())
		}
	}
	slices.SortFunc(result.Replicas, func(a, b *messages.ReplicaStarted) int {
		return cmp.Compare(a.GetReplica(), b.GetReplica())
	})
	ctx.Respond(result)
}

func pidOf(ref *messages.ActorRef) *actor.PID { return actor.NewPID(ref.GetAddress(), ref.GetId()) }

func startRefused(id string, r *messages.Refused) *messages.StartReplicaResult {
	return &messages.StartReplicaResult{RequestId: id, Outcome: &messages.StartReplicaResult_Refused{Refused: r}}
}

func refusal(reason messages.Reason, detail string, after time.Duration) *messages.Refused {
	return &messages.Refused{Reason: reason, Detail: detail, RetryAfter: durationpb.New(after)}
}
