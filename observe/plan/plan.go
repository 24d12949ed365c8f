package plan

import (
	"fmt"
	"strings"
	"time"

	"troupe/messages"
)

// Text returns a plan as text: what each model wants, the changes with their reasons, and what is missing.
func Text(p *messages.PlanReport) string {
	var b strings.Builder
	fmt.Fprintln(&b, heading(p))
	if len(p.GetModels()) == 0 {
		fmt.Fprintln(&b, "\nNo model is deployed.")
		return b.String()
	}
	fmt.Fprintln(&b)
	writeModels(&b, p.GetModels())
	if n := p.GetLeftOut(); n > 0 {
		fmt.Fprintf(&b, "%d models are left out, since the answer would be too long. troupe plan MODEL shows one.\n", n)
	}
	fmt.Fprintln(&b)
	writeChanges(&b, p)
	writeUnmet(&b, p.GetModels())
	writeHeld(&b, p.GetModels())
	return b.String()
}

// heading returns where, when and why a plan was made, and what became of it. One without a number was only
// asked for.
func heading(p *messages.PlanReport) string {
	if p.GetNumber() == 0 {
		return fmt.Sprintf("What it would do at %s; nothing of this is done.", clock(p.GetAt().AsTime()))
	}
	text := fmt.Sprintf("Plan %d, of %s, by %s in term %d", p.GetNumber(), clock(p.GetAt().AsTime()), p.GetNode(),
		p.GetTerm())
	if causes := strings.Join(p.GetCauses(), "; "); causes != "" {
		text += ", because of: " + causes
	}
	if p.GetOutcome() != "" {
		text += ". Outcome: " + p.GetOutcome()
	}
	return text + "."
}

// writeModels writes a line for each model: its number of replicas, its limits, its SLO with what was measured,
// and why it wants that many.
func writeModels(b *strings.Builder, all []*messages.ModelPlan) {
	t := table{{"MODEL", "PRIORITY", "HAS", "WANTS", "LIMITS", "REQ/s", "TTFT", "SLO", "TPOT", "SLO", "WHY"}}
	for _, m := range all {
		d, wants := m.GetDemand(), fmt.Sprint(m.GetWant())
		if m.GetUrgency() != "" && m.GetMissing() > 0 {
			wants += " (" + m.GetUrgency() + ")"
		}
		t = append(t, []string{
			m.GetName(), m.GetPriority(), fmt.Sprint(m.GetReplicas()), wants,
			fmt.Sprintf("%d-%d", m.GetMin(), m.GetMax()), rate(d), length(d.GetTtft()), length(m.GetSloTtft()),
			length(d.GetTpot()), length(m.GetSloTpot()), m.GetWhy(),
		})
	}
	t.write(b)
}

// writeChanges writes the replicas that leave and those that come, with the reasons, and the models whose number of
// replicas alone is stored, or that a replica need not wait for others any longer.
func writeChanges(b *strings.Builder, p *messages.PlanReport) {
	t, written := table{}, make(map[string]bool)
	for _, d := range p.GetDepartures() {
		written[d.GetModel()] = true
		why := d.GetWhy()
		if d.GetFor() != "" && !strings.Contains(why, d.GetFor()) {
			why += ", for " + d.GetFor()
		}
		t = append(t, []string{"- " + d.GetName(), "leaves", strings.Join(d.GetDevices(), ", "), why})
	}
	for _, r := range p.GetReplicas() {
		if !r.GetNew() {
			continue
		}
		written[r.GetModel()] = true
		why := r.GetWhy()
		if len(r.GetAfter()) > 0 {
			why += "; after " + strings.Join(r.GetAfter(), ", ") + " left"
		}
		t = append(t, []string{"+ " + r.GetName(), "starts", strings.Join(r.GetDevices(), ", "), why})
	}
	for _, w := range p.GetWrites() {
		why := "no replica waits for others to leave any longer"
		switch {
		case w.GetFrom() != w.GetTo():
			why = fmt.Sprintf("from %d to %d replicas", w.GetFrom(), w.GetTo())
		case w.GetTo() == 0:
			why = "it needs no replica"
		}
		if !written[w.GetModel()] {
			t = append(t, []string{"= " + w.GetModel(), "stored", "", why})
		}
	}
	if len(t) == 0 {
		fmt.Fprintln(b, "Nothing changes.")
		return
	}
	t.write(b)
}

// writeUnmet writes which models lack replicas, and why.
func writeUnmet(b *strings.Builder, all []*messages.ModelPlan) {
	t := table{}
	for _, m := range all {
		if m.GetMissing() == 0 {
			continue
		}
		why := m.GetUnmet()
		if m.GetLater() {
			why += "; there may be a place soon"
		}
		t = append(t, []string{m.GetName(), fmt.Sprintf("lacks %d", m.GetMissing()), why})
	}
	if len(t) > 0 {
		fmt.Fprintln(b)
		t.write(b)
	}
}

// writeHeld writes which models an operator holds or has pinned.
func writeHeld(b *strings.Builder, all []*messages.ModelPlan) {
	t := table{}
	for _, m := range all {
		if m.GetHeldBy() != "" {
			t = append(t, []string{m.GetName(), "held by " + m.GetHeldBy() + until(m)})
		}
		if m.GetPinned() {
			t = append(t, []string{m.GetName(), "pinned: its replicas stay where they are"})
		}
	}
	if len(t) > 0 {
		fmt.Fprintln(b)
		t.write(b)
	}
}

func until(m *messages.ModelPlan) string {
	if m.GetHeldUntil() == nil {
		return "; models.release ends that"
	}
	if strings.Contains(m.GetHeldBy(), " until ") {
		return ""
	}
	return " until " + m.GetHeldUntil().AsTime().Format(time.RFC3339)
}
