package schedule

import "slices"

// Verdict is whether a device can have one more replica of a model, beside those that the plan puts there.
type Verdict struct {
	Device string
	Admits bool
	Why    string // a reason for or against the device
}

// Explain returns a verdict for each device, by name, for the plan that Make returns for the same snapshot. It
// returns none for a model that is not in the snapshot.
func Explain(s Snapshot, name string) (all []Verdict) {
	w := planned(s)
	i := slices.IndexFunc(w.models, func(m *model) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	m := w.models[i]
	q, nodes := request{model: m, urgency: m.want.Urgency, siblings: m.want.Urgency == Minimum}, m.siblingsOn()
	for _, d := range w.devices {
		v := Verdict{Device: d.Name}
		switch r := w.admits(q, d, here); {
		case r.kind == "":
			v.Admits, v.Why = true, w.preferenceOf(q, d, nodes).String()
		case r.detail == "":
			v.Why = r.kind
		default:
			v.Why = r.kind + ": " + r.detail
		}
		all = append(all, v)
	}
	return all
}

// Attempt returns the failed attempts to start a model on a device, and whether there were any.
func (m Memory) Attempt(model, device string) (a Attempt, failed bool) {
	a, failed = m.Avoid[avoidKey(model, device)]
	return a, failed
}
