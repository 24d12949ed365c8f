package planner

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	core "troupe/core/planner"
	"troupe/messages"
)

// asked is a question whose plan is not made yet.
type asked struct {
	from     *actor.PID
	id       string // of the request
	model    string // to be explained; empty: the plan is the answer
	snapshot bool
}

func (p *planner) onGetPlan(ctx actor.Context, msg *messages.GetPlan) {
	if msg.GetNow() {
		p.ask(ctx, asked{from: ctx.Sender(), id: msg.GetRequestId(), snapshot: msg.GetSnapshot()})
		return
	}
	status := p.machine.Status()
	switch r := status.Find(msg.GetNumber()); {
	case !p.leads(ctx):
		ctx.Respond(p.notLeading())
	case r == nil && msg.GetNumber() == 0:
		ctx.Respond(&messages.Refused{Reason: messages.Reason_REASON_NOT_FOUND,
			Detail: fmt.Sprintf("node %s has just begun to lead and has made no plan yet; repeat the request", p.Node)})
	case r == nil:
		ctx.Respond(&messages.Refused{Reason: messages.Reason_REASON_NOT_FOUND, Detail: fmt.Sprintf(
			"plan %d is not kept; planner.history lists those of the last %d that changed something", msg.GetNumber(),
			core.MaxHistory)})
	default:
		report := p.report(r)
		report.RequestId = msg.GetRequestId()
		p.respond(ctx, ctx.Sender(), report, r, msg.GetSnapshot())
	}
}

func (p *planner) onExplain(ctx actor.Context, msg *messages.ExplainModel) {
	p.ask(ctx, asked{from: ctx.Sender(), id: msg.GetRequestId(), model: msg.GetModel()})
}

// ask asks the machine for a plan.
func (p *planner) ask(ctx actor.Context, a asked) {
	p.asks++
	id := strconv.FormatUint(p.asks, 10)
	p.asked[id] = a
	p.perform(ctx, p.machine.Asked(core.Ask{ID: id, Model: a.model}, p.at(ctx)))
}

// answer answers questions.
func (p *planner) answer(ctx actor.Context, e core.Answer) {
	for _, question := range e.Asks {
		a, known := p.asked[question.ID]
		if !known {
			continue
		}
		delete(p.asked, question.ID)
		switch {
		case e.Record == nil:
			ctx.Send(a.from, p.notLeading())
		case a.model != "":
			ctx.Send(a.from, p.explanation(a, e.Record))
		default:
			report := p.report(e.Record)
			report.RequestId = a.id
			p.respond(ctx, a.from, report, e.Record, a.snapshot)
		}
	}
}

// respond sends a report, with its snapshot if it is asked for.
func (p *planner) respond(ctx actor.Context, to *actor.PID, report *messages.PlanReport, r *core.Record,
	snapshot bool) {
	if snapshot {
		b, err := json.Marshal(r.Snapshot)
		if err != nil {
			ctx.Send(to, &messages.Refused{Reason: messages.Reason_REASON_INTERNAL, Detail: "snapshot: " + err.Error()})
			return
		}
		report.Snapshot = b
	}
	ctx.Send(to, proto.Message(report))
}

func (p *planner) onGetHistory(ctx actor.Context, msg *messages.GetPlanHistory) {
	if !p.leads(ctx) {
		ctx.Respond(p.notLeading())
		return
	}
	all := p.machine.Status().History
	if n := int(msg.GetLimit()); n > 0 && n < len(all) {
		all = all[len(all)-n:]
	}
	h := &messages.PlanHistory{RequestId: msg.GetRequestId(), Kept: core.MaxHistory}
	for _, r := range all {
		report := p.report(r)
		report.Replicas = onlyNew(report.GetReplicas())
		h.Plans = append(h.Plans, report)
	}
	ctx.Respond(h)
}

func (p *planner) leads(ctx actor.Context) bool { return p.at(ctx).Term != 0 }

// notLeading returns the answer of a node that does not lead.
func (p *planner) notLeading() *messages.Refused {
	leader, _ := p.Leader()
	detail := fmt.Sprintf("node %s does not lead the planner; no node does now, so repeat the request", p.Node)
	if leader != "" && leader != p.Node {
		detail = fmt.Sprintf("node %s does not lead the planner; send the request to node %s", p.Node, leader)
	}
	return &messages.Refused{Reason: messages.Reason_REASON_NOT_READY, Detail: detail}
}

// status returns the state of this planner.
func (p *planner) status(now time.Time) *messages.PlannerStatus {
	s := p.machine.Status()
	leader, term := p.Leader()
	out := &messages.PlannerStatus{Node: p.Node, Leads: leader == p.Node, Leader: leader, Term: term,
		State: p.machine.State().String()}
	if pause := p.Pause(); pause.GetPaused() {
		out.Paused = pause
	}
	if s.Term == 0 || s.Term != term || !out.Leads {
		return out
	}
	out.Since, out.Plans, out.Changed = timestamppb.New(s.Since), s.Counts.Plans, s.Counts.Changed
	out.Conflicts, out.Failed = s.Counts.Conflicts, s.Counts.Failed
	next := now
	if s.Last != nil {
		out.Last = p.report(s.Last)
		out.Last.Replicas = nil
		next = s.Last.At.Add(core.Interval)
	}
	if out.Paused == nil {
		out.Next = timestamppb.New(next)
	}
	return out
}
