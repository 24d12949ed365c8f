package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/core/backend"
	"troupe/core/hbm"
	core "troupe/core/planner"
	"troupe/core/schedule"
	"troupe/messages"
)

// observationOf converts the stored deployments, the view of the router, and the members.
func observationOf(stored []*messages.ApplyDeployment, view *messages.ClusterView, members *messages.MembersChanged,
	now time.Time) *core.Observation {
	o := &core.Observation{}
	statuses := make(map[string]*messages.DeploymentStatus)
	for _, s := range view.GetDeployments() {
		statuses[s.GetSpec().GetName()] = s
	}
	for _, d := range stored {
		name := d.GetSpec().GetName()
		o.Deployments = append(o.Deployments, deploymentOf(d.GetSpec(), d.GetRevision(), statuses[name], now))
		delete(statuses, name)
	}
	for _, s := range view.GetDeployments() {
		if name := s.GetSpec().GetName(); statuses[name] != nil { // it was deleted
			o.Deployments = append(o.Deployments, deploymentOf(s.GetSpec(), 0, s, now))
		}
	}
	slices.SortFunc(o.Deployments, func(a, b core.Deployment) int { return cmp.Compare(a.Model.Name, b.Model.Name) })
	for _, m := range members.GetMembers() {
		o.Nodes = append(o.Nodes, core.Node{
			Name: m.GetName(), GPUs: m.GetGpus(), Draining: slices.Contains(members.GetDraining(), m.GetName()),
			Leaving: m.GetState() == messages.MemberState_MEMBER_STATE_LEAVING,
		})
	}
	slices.SortFunc(o.Nodes, func(a, b core.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, d := range members.GetDeparted() {
		o.Away = append(o.Away, schedule.Away{Node: d.GetName(), Since: d.GetLastSeen().AsTime()})
	}
	return o
}

// deploymentOf converts a stored deployment with its status, which is nil if it does not report. Revision 0
// means that it was deleted.
func deploymentOf(spec *messages.DeploymentSpec, revision uint64, status *messages.DeploymentStatus,
	now time.Time) core.Deployment {
	replicas, least, most := spec.Bounds()
	d := core.Deployment{
		Revision: revision, Replicas: replicas, Leader: status.GetNode(), Planned: spec.GetAssignments() != nil,
		Withdrawn: spec.GetAssignments().GetWithdrawn(), Intended: int(spec.GetAssignments().GetWanted()),
		Term:     spec.GetAssignments().GetTerm(),
		Reserved: spec.ParkedReplicas(),
	}
	for _, p := range spec.GetPreemptions() {
		d.Reserved = append(d.Reserved, p.GetReplica())
	}
	for _, a := range spec.GetAssignments().GetReplicas() {
		d.Assigned = append(d.Assigned, core.Assignment{
			Replica: a.GetReplica(), Devices: devicesOf(a), Why: a.GetWhy(), After: a.GetAfter(), At: timeOf(a.GetAt()),
		})
	}
	streams := make(map[string]int, len(status.GetReplicas()))
	for _, r := range status.GetReplicas() {
		streams[r.GetName()] = int(r.GetRunning() + r.GetWaiting())
	}
	for _, r := range status.GetAssigned() {
		d.Reports = append(d.Reports, reportOf(spec.GetName(), r, streams[r.GetReplica()]))
	}
	m := &d.Model
	*m = schedule.Model{
		Name: spec.GetName(), Priority: PriorityOf(spec.GetPriority()), SLO: SLOOf(spec), Min: least, Max: most,
		Replicas: int(spec.Wanted()), Engine: engineOf(spec.GetEngine().GetKind()),
		Group: int(spec.GetTensorParallel()), Pinned: spec.GetPinned(), Files: spec.GetRevisionDigest(),
		Revision:  revisionOf(spec),
		IdleAfter: time.Duration(spec.GetIdleAfter()) * time.Second, Loads: loadsOf(status),
		WakeWait: time.Duration(spec.GetWakeWait()) * time.Second,
	}
	if m.IdleAfter == 0 {
		m.IdleAfter = math.MaxInt64 // never
	}
	if schedule.RestOf(replicas, least, most) == schedule.Stopped {
		m.Min, m.Max = 0, 0
	}
	if spec.GetLevel() == messages.Level_LEVEL_PARKED {
		m.Replicas = 0
	}
	hold(m, spec)
	if need := status.GetNeed(); need != nil {
		parts := max(1, int64(m.Group))
		m.Sized, m.Weights = true, (int64(need.GetWeights())+parts-1)/parts
		m.Need = hbm.Need{Fixed: int64(need.GetFixed()), Min: int64(need.GetMin()), MinAlone: int64(need.GetMinAlone()),
			Max: int64(need.GetMax())}
	}
	m.Demand, d.Active = demandOf(status, now)
	return d
}

// revisionOf returns a text that changes when an operator deploys other settings or files, with which a failed start
// may succeed.
func revisionOf(s *messages.DeploymentSpec) string {
	return fmt.Sprintf("%d %s %v %d %d %d %d %d %d %d %d %d", s.GetDeploy(), s.GetPath(), s.GetEngine(),
		s.GetTensorParallel(), s.GetMaxSequences(), s.GetMaxWaiting(), s.GetStepTokens(), s.GetBlockTokens(),
		s.GetKvBlocks(), s.GetAdapterPages(), s.GetMaxAdapters(), s.GetMaxAdapterRank())
}

// kept reports whether replicas have levels, or are preempted.
func kept(s *messages.DeploymentSpec) bool {
	return s.GetLevel() != messages.Level_LEVEL_UNSPECIFIED || len(s.GetReplicaLevels()) > 0 ||
		len(s.GetPreemptions()) > 0
}

// hold sets who holds a deployment, and until when. One without replicas is not held: requests wake it.
func hold(m *schedule.Model, spec *messages.DeploymentSpec) {
	switch h := spec.GetHeldBy(); {
	case spec.GetReplicas() == 0 && !kept(spec):
	case h != nil:
		m.HeldBy = cmp.Or(h.GetWho(), "an operator")
		if what := h.GetWhat(); what != "" {
			m.HeldBy += " (" + what + ")"
		}
		m.HeldTill = timeOf(h.GetUntil())
	case spec.Held() || len(spec.GetPreemptions()) > 0:
		m.HeldBy = "an operator"
	}
}

// PriorityOf converts the priority of a deployment. An unset one is standard.
func PriorityOf(p messages.Priority) schedule.Priority {
	switch p {
	case messages.Priority_PRIORITY_CRITICAL:
		return schedule.Critical
	case messages.Priority_PRIORITY_HIGH:
		return schedule.High
	case messages.Priority_PRIORITY_BATCH:
		return schedule.Batch
	}
	return schedule.Standard
}

// SLOOf returns the SLO of a deployment, or that of its priority if it has none.
func SLOOf(spec *messages.DeploymentSpec) schedule.SLO {
	s := spec.GetSlo()
	if s.GetTtft() == nil && s.GetTpot() == nil {
		return schedule.DefaultSLO(PriorityOf(spec.GetPriority()))
	}
	return schedule.SLO{TTFT: s.GetTtft().AsDuration(), TPOT: s.GetTpot().AsDuration()}
}

func engineOf(kind string) backend.Kind { return backend.Kind(kind).OrNative() }

var progresses = map[messages.AssignmentProgress]schedule.Progress{
	messages.AssignmentProgress_ASSIGNMENT_PROGRESS_ASSIGNED: schedule.Assigned,
	messages.AssignmentProgress_ASSIGNMENT_PROGRESS_STARTING: schedule.Starting,
	messages.AssignmentProgress_ASSIGNMENT_PROGRESS_UP:       schedule.Up,
	messages.AssignmentProgress_ASSIGNMENT_PROGRESS_LEAVING:  schedule.Leaving,
}

// reportOf converts what a deployment reports of a replica.
func reportOf(model string, r *messages.AssignmentStatus, streams int) core.Report {
	return core.Report{At: timeOf(r.GetAt()), Quarantined: r.GetQuarantined(), Placed: schedule.Placed{
		Name: r.GetReplica(), Model: model, Devices: devicesOf(r), Progress: progresses[r.GetProgress()],
		Since: timeOf(r.GetSince()), Failure: r.GetFailure(), Outdated: r.GetOutdated(),
		Files: r.GetRevisionDigest(), Streams: streams, Served: r.GetServed(),
	}}
}

// devicesOf returns the names of devices of a node.
func devicesOf(of interface {
	GetNode() string
	GetGpus() []string
}) (all []string) {
	for _, gpu := range of.GetGpus() {
		all = append(all, deviceName(of.GetNode(), gpu))
	}
	return all
}

func deviceName(node, gpu string) string { return node + "/" + gpu }

// assignmentsOf converts the replicas of a write.
func assignmentsOf(w core.Write) *messages.Assignments {
	all := &messages.Assignments{Term: w.Term, Wanted: uint32(w.Intended), Withdrawn: w.Withdrawn}
	for _, a := range w.Replicas {
		out := &messages.Assignment{Replica: a.Replica, Why: a.Why, After: a.After}
		if !a.At.IsZero() {
			out.At = timestamppb.New(a.At)
		}
		for _, name := range a.Devices {
			node, gpu, _ := strings.Cut(name, "/")
			out.Node, out.Gpus = node, append(out.Gpus, gpu)
		}
		all.Replicas = append(all.Replicas, out)
	}
	return all
}

func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
