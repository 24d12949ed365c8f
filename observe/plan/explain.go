package plan

import (
	"fmt"
	"strings"

	"troupe/messages"
)

// Explanation returns why a model has the replicas that it has, and which devices could have one more.
func Explanation(e *messages.ModelExplanation) string {
	var b strings.Builder
	m := e.GetModel()
	fmt.Fprintf(&b, "%s at %s.\n\n", m.GetName(), clock(e.GetAt().AsTime()))
	writeModels(&b, []*messages.ModelPlan{m})
	writeUnmet(&b, []*messages.ModelPlan{m})
	writeHeld(&b, []*messages.ModelPlan{m})
	t := table{}
	for _, r := range e.GetReplicas() {
		progress, why := r.GetProgress(), r.GetWhy()
		if r.GetNew() {
			progress = "starts"
		}
		t = append(t, []string{r.GetName(), strings.Join(r.GetDevices(), ", "), progress, why})
	}
	for _, d := range e.GetDepartures() {
		t = append(t, []string{d.GetName(), strings.Join(d.GetDevices(), ", "), "leaves", d.GetWhy()})
	}
	t.section(&b, "REPLICA", "DEVICES", "STATE", "WHY")
	t = nil
	for _, d := range e.GetDevices() {
		t = append(t, []string{d.GetDevice(), map[bool]string{true: "yes", false: "no"}[d.GetAdmits()], d.GetWhy()})
	}
	t.section(&b, "DEVICE", "ONE MORE", "WHY")
	t = nil
	for _, a := range e.GetAttempts() {
		t = append(t, []string{a.GetDevice(), fmt.Sprint(a.GetFailures()), clock(a.GetUntil().AsTime()), a.GetWhy()})
	}
	t.section(&b, "FAILED ON", "TIMES", "NOT BEFORE", "WHY")
	return b.String()
}

// section writes a table with a header after an empty line, if it has rows.
func (t table) section(b *strings.Builder, header ...string) {
	if len(t) > 0 {
		b.WriteString("\n")
		append(table{header}, t...).write(b)
	}
}

// History returns the plans that changed something, the newest last, with a line for each change.
func History(plans []*messages.PlanReport) string {
	var b strings.Builder
	if len(plans) == 0 {
		return "No plan has changed anything since this node leads.\n"
	}
	for i, p := range plans {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintln(&b, heading(p))
		writeChanges(&b, p)
	}
	return b.String()
}

// Status returns the state of the planner as one line.
func Status(s *messages.PlannerStatus) string {
	switch pause := s.GetPaused(); {
	case !s.GetLeads() && s.GetLeader() == "":
		return "No node leads the planner; another takes over within seconds."
	case pause.GetPaused():
		text := "The planner is paused since " + clock(pause.GetAt().AsTime())
		if pause.GetBy() != "" {
			text += " by " + pause.GetBy()
		}
		if pause.GetWhy() != "" {
			text += ": " + pause.GetWhy()
		}
		return text + "; planner.resume ends that."
	}
	return fmt.Sprintf("The planner of %s leads in term %d and has made %d plans, of which %d changed something.",
		s.GetNode(), s.GetTerm(), s.GetPlans(), s.GetChanged())
}
