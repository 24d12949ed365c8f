package simulate

import (
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
	DeviceHours float64       `json:"device_hours"`
	Models      []ModelResult `json:"models"`
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
	DeviceHours   float64  `json:"device_hours"` // of its devices; a shared one counts for each model
	Busy          float64  `json:"busy"`         // share of these in which its steps ran
	KVHits        *float64 `json:"kv_hits"`      // share of the tokens of admitted prompts found in KV blocks
	Preemptions   uint64   `json:"preemptions"`  // of sequences
	Steps         uint64   `json:"steps"`        // of its replicas
	AdapterUse
	TierUse
	SLOTTFT float64 `json:"slo_ttft_seconds"` // 0: none
	SLOTPOT float64 `json:"slo_tpot_seconds"` // 0: none
}

func (s *simulation) result() Result {
	span := max(s.cfg.Duration, since(s.last))
	out := Result{Simulated: true, Scenario: s.cfg.Name, Seed: s.cfg.Seed, Seconds: span.Seconds(),
		DeviceHours: float64(len(s.devices)) * span.Hours()}
	for _, d := range s.cfg.Deployments {
		m := s.models[d.Name].result(span)
		out.Steps += m.Steps
		out.Models = append(out.Models, m)
	}
	return out
}

func (m *model) result(span time.Duration) ModelResult {
	out := ModelResult{Model: m.Name, Requests: m.requests, Finished: m.finished, Refused: m.refused,
		PromptTokens: m.promptTokens, OutputTokens: m.outputTokens,
		SLOAttainment: share(m.met, m.requests), Goodput: float64(m.met) / span.Seconds(),
		SLOTTFT: m.SLO.TTFT.Seconds(), SLOTPOT: m.SLO.TPOT.Seconds()}
	slices.Sort(m.ttft)
	slices.Sort(m.tpot)
	out.TTFTP50, out.TTFTP99 = quantile(m.ttft, 0.50), quantile(m.ttft, 0.99)
	out.TPOTP50, out.TPOTP99 = quantile(m.tpot, 0.50), quantile(m.tpot, 0.99)
	var computed, cached uint64
	var busy time.Duration
	on := make(map[*device]bool)
	for _, r := range m.replicas {
		s := r.machine.Status()
		computed, cached = computed+s.Totals.TokensIn, cached+s.Totals.TokensCached
		out.Preemptions += s.Totals.Preemptions
		out.Steps += s.Steps
		busy += s.Totals.Use.Steps
		on[r.device] = true
	}
	out.DeviceHours = float64(len(on)) * span.Hours()
	out.Busy = busy.Hours() / out.DeviceHours
	out.KVHits = share(int(cached), int(computed+cached))
	out.AdapterUse, out.TierUse = m.adapterUse(), m.tierUse(computed+cached)
	return out
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
