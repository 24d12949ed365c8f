package router

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/backend"
	"troupe/core/route"
	core "troupe/core/router"
	"troupe/core/schedule"
	"troupe/messages"
)

func pidOf(a core.Actor) *actor.PID { return actor.NewPID(a.Address, a.ID) }

func actorOf(pid *actor.PID) core.Actor {
	return core.Actor{Address: pid.GetAddress(), ID: pid.GetId()}
}

func refOf(r *messages.ActorRef) core.Actor {
	return core.Actor{Address: r.GetAddress(), ID: r.GetId()}
}

func actorRef(a core.Actor) *messages.ActorRef {
	return &messages.ActorRef{Address: a.Address, Id: a.ID}
}

func (r *router) membersOf(msg *messages.MembersChanged) (all []core.Member) {
	for _, m := range msg.GetMembers() {
		member := core.Member{
			Name: m.GetName(), ID: m.GetId(), Leaving: m.GetState() == messages.MemberState_MEMBER_STATE_LEAVING,
		}
		member.Deployments = actorOf(r.Leader(m))
		if m.GetName() != r.Node {
			member.Router = actorOf(r.Peer(m))
		}
		all = append(all, member)
	}
	return all
}

func storedDeploymentOf(d *messages.ApplyDeployment) core.Stored {
	s := d.GetSpec()
	rest := schedule.RestOf(s.Bounds())
	stored := core.Stored{
		Name: s.GetName(), At: d.GetRevision(), Rest: rest, Preempted: s.Preempted(),
		Wakes:      s.GetMinReplicas() == 0 && rest != schedule.Stopped,
		Revision:   s.GetRevisionDigest(),
		MaxWaiting: int(s.GetMaxSequences() + s.GetMaxWaiting()), // as many as one replica takes
		Level:      levels[s.GetLevel()], Levels: make(map[string]string),
		Engine: backend.SpecOf(s.GetEngine().GetKind(), s.GetEngine().GetWithout()),
	}
	for replica, l := range s.GetReplicaLevels() {
		stored.Levels[replica] = levels[l]
	}
	return stored
}

// levels are the names of the levels below active.
var levels = map[messages.Level]string{
	messages.Level_LEVEL_STANDBY: "standby",
	messages.Level_LEVEL_PARKED:  "parked",
	messages.Level_LEVEL_COLD:    "cold",
}

func storedOf(deployments []*messages.ApplyDeployment) (all []core.Stored) {
	for _, d := range deployments {
		all = append(all, storedDeploymentOf(d))
	}
	return all
}

func reportOf(a *messages.ReplicaAnnounced) core.Report {
	s := a.GetStatus()
	return core.Report{
		Replica: route.Replica{
			Name: s.GetName(), State: stateOf(s), Faulty: s.GetFault() != nil,
			Running: int(s.GetRunning()), Waiting: int(s.GetWaiting()),
			MaxSequences: int(s.GetMaxSequences()), StepTokens: int(s.GetStepTokens()),
			BlockTokens: int(s.GetBlockTokens()), KVBlocks: int(s.GetKvBlocks()),
			KVBlocksFree: int(s.GetKvBlocksFree()),
			Revision:     s.GetRevisionDigest(), Adapters: residences(s.GetAdapters()), Lacks: lacks(s.GetBackend()),
		},
		Model: s.GetModel(), Actor: refOf(s.GetActor()), Incarnation: s.GetIncarnation(),
		Evicted: a.GetEvicted(), Committed: a.GetCommitted(), Snapshot: a.GetSnapshot(),
	}
}

// lacks returns what a backend cannot do. A replica of an earlier version, which does not report it, can do all.
func lacks(b *messages.Backend) backend.Set {
	if b == nil {
		return 0
	}
	return backend.All &^ backend.SetOf(b.GetCapabilities())
}

// unsupported says what the backends of a deployment cannot do: what one of its replicas reports to lack, or what
// its kind lacks if none has reported.
func unsupported(s *messages.DeploymentStatus) (all []string) {
	engine := backend.SpecOf(s.GetSpec().GetEngine().GetKind(), s.GetSpec().GetEngine().GetWithout())
	missing := backend.All &^ engine.Capabilities()
	for _, r := range s.GetReplicas() {
		missing |= lacks(r.GetBackend())
	}
	for _, name := range missing.Names() {
		c, _ := backend.ParseCapability(name) // a name of All
		all = append(all, backend.Missing(engine.Kind, c))
	}
	return all
}

func stateOf(s *messages.ReplicaStatus) route.State {
	switch s.GetState() {
	case messages.ReplicaState_REPLICA_STATE_SERVING:
		return route.Serving
	case messages.ReplicaState_REPLICA_STATE_SUSPENDING, messages.ReplicaState_REPLICA_STATE_STANDBY:
		return route.Suspended
	case messages.ReplicaState_REPLICA_STATE_DRAINING:
		return route.Draining
	case messages.ReplicaState_REPLICA_STATE_FAILED:
		return route.Failed
	}
	return route.Loading
}

// residences returns the tiers in which a replica holds its adapters. It omits adapters that are
// only on disk. An adapter counts as on the GPU only once it is loaded.
func residences(held []*messages.AdapterHeld) map[string]route.Residence {
	if len(held) == 0 {
		return nil
	}
	where := make(map[string]route.Residence, len(held))
	for _, h := range held {
		key := (&messages.AdapterSpec{Name: h.GetName(), Revision: h.GetRevision()}).Key()
		switch h.GetLocation() {
		case messages.AdapterLocation_ADAPTER_LOCATION_GPU:
			where[key] = route.OnGPU
		case messages.AdapterLocation_ADAPTER_LOCATION_DRAM:
			where[key] = route.InDRAM
		}
	}
	return where
}

func tierOf(t *messages.TierAnnounced) core.TierReport {
	return core.TierReport{
		Name: t.GetName(), Actor: refOf(t.GetActor()), Evicted: t.GetEvicted(), Committed: t.GetCommitted(),
		Snapshot: t.GetSnapshot(),
	}
}

func tierSnapshot(t core.TierReport) *messages.TierAnnounced {
	return &messages.TierAnnounced{
		Name: t.Name, Actor: actorRef(t.Actor), Committed: t.Committed, Snapshot: t.Snapshot,
	}
}

func statusOf(s *messages.DeploymentStatus) core.Status {
	status := core.Status{Deployment: s.GetSpec().GetName(), Node: s.GetNode(), Term: s.GetTerm()}
	if s.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_FAILED {
		status.Failure = refusalOf(s.GetFailure())
	}
	if s.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_STANDBY {
		status.Level = levels[messages.Level_LEVEL_STANDBY]
	}
	if s.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_PARKED {
		status.Level = levels[messages.Level_LEVEL_PARKED]
	}
	return status
}

func announcementOf(msg *messages.RoutesAnnounced) core.Announcement {
	a := core.Announcement{
		Node: msg.GetNode(), Incarnation: msg.GetIncarnation(), Sequence: msg.GetSequence(),
		Snapshot: msg.GetSnapshot(), Sessions: int(msg.GetSessions()), Gone: msg.GetGone(),
		Withdrawn: msg.GetWithdrawn(), Demand: msg.GetDemand() != nil,
	}
	for _, r := range msg.GetReplicas() {
		a.Replicas = append(a.Replicas, reportOf(r))
	}
	for _, t := range msg.GetTiers() {
		a.Tiers = append(a.Tiers, tierOf(t))
	}
	for _, s := range msg.GetDeployments() {
		a.Statuses = append(a.Statuses, statusOf(s))
	}
	return a
}

func requestOf(msg *messages.RouteSequence, from *actor.PID) core.Request {
	r := core.Request{
		Session: actorOf(from), Class: int(msg.GetPriority()), Wait: msg.GetWait(), Arrived: msg.GetArrived().AsTime(),
		ID: msg.GetRequestId(), Model: msg.GetModel(), Adapter: msg.GetAdapterSpec().Key(), Prompt: msg.GetPrompt(),
		Salt: msg.GetCacheSalt(), Avoid: msg.GetAvoid(), Revision: msg.GetRevisionDigest(), Cause: msg.GetCause(),
		Begun: msg.GetBegun(),
	}
	if d := msg.GetDeadline(); d != nil {
		r.Deadline = d.AsTime()
	}
	return r
}

func routeResult(a core.Answer) *messages.RouteSequenceResult {
	result := &messages.RouteSequenceResult{RequestId: a.ID}
	switch r := refused(a.Refusal); {
	case r != nil:
		result.Outcome = &messages.RouteSequenceResult_Refused{Refused: r}
	case a.Waits():
		result.Outcome = &messages.RouteSequenceResult_Waiting{Waiting: &messages.RouteWaiting{}}
	default:
		result.Outcome = &messages.RouteSequenceResult_Routed{Routed: &messages.SequenceRouted{
			Replica: a.Routed.Replica, Actor: actorRef(a.Routed.Actor), Incarnation: a.Routed.Incarnation,
			Node: a.Routed.Node,
		}}
	}
	return result
}

func queryOf(msg *messages.FindBlocks) core.Query {
	return core.Query{
		ID: msg.GetRequestId(), Model: msg.GetModel(), Replica: msg.GetReplica(), Blocks: msg.GetBlocks(),
		InTiers: msg.GetInTiers(),
	}
}

func findResult(request string, runs []core.Run) *messages.FindBlocksResult {
	result := &messages.FindBlocksResult{RequestId: request}
	for _, run := range runs {
		result.Held = append(result.Held, &messages.BlocksHeld{
			First: uint32(run.First), Blocks: uint32(run.Blocks), Holder: actorRef(run.Holder), Name: run.Name,
			Node: run.Node,
		})
	}
	return result
}

func moveOf(msg *messages.SequenceMoved) core.Move {
	how := msg.GetReport()
	return core.Move{
		Replica: msg.GetReplica(), Node: msg.GetNode(), From: msg.GetFrom(), Cause: msg.GetCause(),
		Blocks: int(how.GetBlocks()), Reused: int(how.GetReusedBlocks()), Bytes: how.GetBytes(),
		Pause: time.Duration(how.GetPauseSeconds() * float64(time.Second)),
	}
}

func refusalOf(r *messages.Refused) core.Refusal {
	m := r.GetMemory()
	return core.Refusal{
		Reason: core.Reason(r.GetReason()), Detail: r.GetDetail(), RetryAfter: r.GetRetryAfter().AsDuration(),
		Memory: core.Memory{
			Model: m.GetModel(), Bytes: m.GetBytes(), Used: m.GetUsed(), Total: m.GetTotal(), Reserve: m.GetReserve(),
			Evictable: m.GetEvictable(), Room: roomOf(m),
		},
	}
}

func roomOf(m *messages.MemoryShortage) *core.Room {
	if m.GetDevice() == "" {
		return nil
	}
	room := &core.Room{Device: m.GetDevice()}
	for _, h := range m.GetLeave() {
		room.Leave = append(room.Leave, core.Holder{
			Model: h.GetModel(), Replicas: h.GetReplicas(), Bytes: h.GetBytes(), Command: h.GetCommand(),
		})
	}
	return room
}

// refused returns the message of a refusal; nil: none.
func refused(r core.Refusal) *messages.Refused {
	if r == (core.Refusal{}) {
		return nil
	}
	msg := &messages.Refused{Reason: messages.Reason(r.Reason), Detail: r.Detail}
	if r.RetryAfter > 0 {
		msg.RetryAfter = durationpb.New(r.RetryAfter)
	}
	if m := r.Memory; m != (core.Memory{}) {
		msg.Memory = &messages.MemoryShortage{
			Model: m.Model, Bytes: m.Bytes, Used: m.Used, Total: m.Total, Reserve: m.Reserve,
			Evictable: m.Evictable,
		}
		if m.Room != nil {
			msg.Memory.Device = m.Room.Device
			for _, h := range m.Room.Leave {
				msg.Memory.Leave = append(msg.Memory.Leave, &messages.MemoryHolder{
					Model: h.Model, Replicas: h.Replicas, Bytes: h.Bytes, Command: h.Command,
				})
			}
		}
	}
	return msg
}
