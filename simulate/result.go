package simulate

import (
	"maps"
	"math"
	"slices"
	"time"
)

// Result is what a simulation gave.
type Result struct {
	Simulated   bool          `json:"simulated"` // always true
	Scenario    string        `json:"scenario"`
	Seed        uint64        `json:"seed"`
	Seconds     float64       `json:"seconds"` // of virtual time, until the last request ended
	Steps       uint64        `json:"steps"`
	Devices     int           `json:"devices"`
	DeviceHours float64       `json:"device_hours"` // of the devices while replicas hold them
	Models      []ModelResult `json:"models"`
	Series      *Series       `json:"series,omitempty"` // nil if Config.Buckets is 0
}

// ModelResult is what a simulation gave for a model. A figure without any request is nil.
type ModelResult struct {
	Model        string   `json:"model"`
	Requests     int      `json:"requests"`
	Finished     int      `json:"finished"`
	Refused      int      `json:"refused"`
	PromptTokens int      `json:"prompt_tokens"`
	OutputTokens int      `json:"output_tokens"`
	TTFTP50      *float64 `json:"ttft_p50_seconds"`
	TTFTP99      *float64 `json:"ttft_p99_seconds"`
	TPOTP50      *float64 `json:"tpot_p50_seconds"`
	TPOTP99      *float64 `json:"tpot_p99_seconds"`
	// SLOAttainment is the share of all requests, also refused ones, that were served within the SLO.
	SLOAttainment *float64 `json:"slo_attainment"`
	Goodput       float64  `json:"goodput"`      // requests within the SLO per second of the simulation
	DeviceHours   float64  `json:"device_hours"` // while its replicas hold them; a shared one counts for each model
	Busy          float64  `json:"busy"`         // share of these in which its steps ran
	KVHits        *float64 `json:"kv_hits"`      // share of the tokens of admitted prompts found in KV blocks
	Preemptions   uint64   `json:"preemptions"`  // of sequences
	Steps         uint64   `json:"steps"`        // of its replicas
	AdapterUse
	TierUse
	MigrationUse
	SLOTTFT float64 `json:"slo_ttft_seconds"` // 0: none
	SLOTPOT float64 `json:"slo_tpot_seconds"` // 0: none

	// Lives of its replicas, without those that served from the beginning. Times are sums.
	Loads         []SourceResult `json:"loads"` // of weights onto a device, by source
	LoadCount     int            `json:"load_count"`
	LoadSeconds   float64        `json:"load_seconds"`
	Starts        int            `json:"starts"` // of replicas, until they served
	StartSeconds  float64        `json:"start_seconds"`
	Switches      int            `json:"switches"` // of these, on a device from which another model has left
	SwitchSeconds float64        `json:"switch_seconds"`
	Wakes         int            `json:"wakes"`        // by requests
	WakeSeconds   float64        `json:"wake_seconds"` // until a replica served
	Interrupted   int            `json:"interrupted"`  // sequences that another replica continued
	Unfinished    int            `json:"unfinished"`   // requests that the run did not end
}

// SourceResult has the loads from a source.
type SourceResult struct {
	Source  string  `json:"source"`
	Count   int     `json:"count"`
	Seconds float64 `json:"seconds"` // sum of their times
}

func (s *simulation) result() Result {
	span := max(s.cfg.Duration, since(s.last))
	end := epoch.Add(span)
	out := Result{Simulated: true, Scenario: s.cfg.Name, Seed: s.cfg.Seed, Seconds: span.Seconds(),
		Devices: len(s.devices)}
	for _, d := range s.devices {
		out.DeviceHours += d.held.until(end).Hours()
	}
	for _, d := range s.cfg.Deployments {
		m := s.models[d.Name].result(end)
		out.Steps += m.Steps
		out.Models = append(out.Models, m)
	}
	out.Series = s.series.result(s, span)
	return out
}

func (m *model) result(end time.Time) ModelResult {
	out := ModelResult{Model: m.Name, Requests: m.requests, Finished: m.finished, Refused: m.refused,
		PromptTokens: m.promptTokens, OutputTokens: m.outputTokens,
		SLOAttainment: share(m.met, m.requests), Goodput: float64(m.met) / since(end).Seconds(),
		SLOTTFT: m.SLO.TTFT.Seconds(), SLOTPOT: m.SLO.TPOT.Seconds()}
	slices.Sort(m.ttft)
	slices.Sort(m.tpot)
	out.TTFTP50, out.TTFTP99 = quantile(m.ttft, 0.50), quantile(m.ttft, 0.99)
	out.TPOTP50, out.TPOTP99 = quantile(m.tpot, 0.50), quantile(m.tpot, 0.99)
	t := m.totals
	for _, r := range m.replicas {
		r.sync(key{at: end})
		t.add(r)
	}
	out.Preemptions, out.Steps = t.preemptions, t.steps
	for _, d := range m.sim.devices {
		if h := m.held[d]; h != nil {
			out.DeviceHours += h.until(end).Hours()
		}
	}
	if out.DeviceHours > 0 {
		out.Busy = t.busy.Hours() / out.DeviceHours
	}
	out.KVHits = share(int(t.cached), int(t.computed+t.cached))
	out.AdapterUse, out.TierUse = m.adapterUse(t.adapters), m.tierUse(t.tiers, t.computed+t.cached)
	out.MigrationUse = m.migrations.use()
	m.addLife(&out)
	return out
}

// addLife adds the loads, switches and wakes.
func (m *model) addLife(out *ModelResult) {
	for _, source := range slices.Sorted(maps.Keys(m.loads)) {
		c := m.loads[source]
		out.Loads = append(out.Loads, SourceResult{source, c.n, c.took.Seconds()})
		out.LoadCount, out.LoadSeconds = out.LoadCount+c.n, out.LoadSeconds+c.took.Seconds()
	}
	out.Switches, out.SwitchSeconds = m.switches.n, m.switches.took.Seconds()
	out.Starts, out.StartSeconds = m.starts.n, m.starts.took.Seconds()
	out.Wakes, out.WakeSeconds = m.wakes, m.waking.took.Seconds()
	out.Interrupted = m.interrupted
	out.Unfinished = m.requests - m.finished - m.refused
}

// quantile returns a quantile of sorted times: the least time that at least the share q of them does
// not exceed. It returns nil if there are none.
func quantile(sorted []time.Duration, q float64) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	at := max(0, int(math.Ceil(q*float64(len(sorted))))-1)
	seconds := sorted[at].Seconds()
	return &seconds
}

// share returns n of all, or nil if all is 0.
func share(n, all int) *float64 {
	if all == 0 {
		return nil
	}
	s := float64(n) / float64(all)
	return &s
}
