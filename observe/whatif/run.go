package whatif

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"troupe/core/planner"
	"troupe/simulate"
)

// Report is what the planner would do, and how requests would be served.
type Report struct {
	Simulated bool                   `json:"simulated"` // always true
	Seconds   float64                `json:"seconds"`   // of virtual time
	Assumed   []string               `json:"assumed"`
	Decisions []Decision             `json:"decisions"`
	Refused   []Refused              `json:"refused"` // at the end
	Models    []simulate.ModelResult `json:"models"`
	After     map[string]int         `json:"replicas"` // by model, as the planner wants them at the end
}

// Decision is a replica that the planner would add or withdraw.
type Decision struct {
	At      float64 `json:"at"` // seconds after the beginning
	Replica string  `json:"replica"`
	Add     bool    `json:"add"` // else it is withdrawn
	Why     string  `json:"why"`
}

// Refused is a model that would have fewer replicas than it wants.
type Refused struct {
	Model   string `json:"model"`
	Missing int    `json:"missing"`
	Why     string `json:"why"`
}

// Run simulates a cluster.
func Run(c Cluster, o Options) (*Report, error) {
	b, requests, err := c.config(o)
	if err != nil {
		return nil, err
	}
	r := &Report{Simulated: true, Seconds: o.For.Seconds(), Assumed: b.assumed, After: make(map[string]int)}
	for _, d := range b.cfg.Deployments {
		r.After[d.Name] = d.Replicas
	}
	refused := make(map[string]Refused)
	b.cfg.Watch = func(at time.Duration, effect planner.Effect) {
		switch e := effect.(type) {
		case planner.Store:
			r.After[e.Name] = len(e.Replicas)
			for _, change := range e.Changes {
				r.Decisions = append(r.Decisions, Decision{at.Seconds(), change.Replica, !change.Withdrawn, change.Why})
			}
		case planner.Refuse:
			refused[e.Name] = Refused{e.Name, e.Unmet.Missing, e.Unmet.Why}
		}
	}
	if len(b.cfg.Deployments) == 0 {
		return nil, fmt.Errorf("there is nothing to simulate: %s", strings.Join(b.assumed, "; "))
	}
	result, err := simulate.Run(b.cfg, requests)
	if err != nil {
		return nil, fmt.Errorf("simulate the cluster: %w", err)
	}
	r.Models = result.Models
	for _, m := range result.Models {
		if f := refused[m.Model]; f.Missing > 0 {
			r.Refused = append(r.Refused, f)
		}
	}
	return r, nil
}

// Text returns the report for people.
func (r *Report) Text() string {
	var b strings.Builder
	length := time.Duration(r.Seconds * float64(time.Second))
	fmt.Fprintf(&b, "Simulated: %s of virtual time from the present state. Nothing was changed.\n\n", length)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tREPLICAS\tREQUESTS\tREFUSED\tWITHIN SLO\tTTFT\tTPOT")
	for _, m := range r.Models {
		within := "-"
		if m.SLOAttainment != nil {
			within = fmt.Sprintf("%.1f%%", 100**m.SLOAttainment)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\t%s\n", m.Model, r.After[m.Model], m.Requests, m.Refused, within,
			against(m.TTFTP99, m.SLOTTFT), against(m.TPOTP99, m.SLOTPOT))
	}
	_ = w.Flush() // a Builder does not fail
	b.WriteString("\nREPLICAS are those at the end; TTFT and TPOT are P99 / SLO.\n")
	if len(r.Decisions) == 0 {
		b.WriteString("\nThe planner would change nothing.\n")
	} else {
		b.WriteString("\nThe planner would\n")
	}
	for _, d := range r.Decisions {
		sign := "-"
		if d.Add {
			sign = "+"
		}
		fmt.Fprintf(&b, "  after %-7s %s %s  %s\n", seconds(d.At), sign, d.Replica, d.Why)
	}
	if len(r.Refused) > 0 {
		b.WriteString("\nAt the end, replicas are missing:\n")
	}
	for _, f := range r.Refused {
		fmt.Fprintf(&b, "  %s lacks %d: %s\n", f.Model, f.Missing, f.Why)
	}
	b.WriteString("\nAssumed:\n")
	for _, a := range r.Assumed {
		b.WriteString("  " + a + "\n")
	}
	return b.String()
}

// against formats a P99 beside its SLO.
func against(p99 *float64, slo float64) string {
	is, most := "-", "-"
	if p99 != nil {
		is = seconds(*p99)
	}
	if slo > 0 {
		most = seconds(slo)
	}
	return is + " / " + most
}

func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d < time.Second {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
