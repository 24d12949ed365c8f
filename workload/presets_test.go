package workload

import (
	"testing"

	"troupe/testkit"
)

// traces are the files of the traces that presets replace, and their numbers of requests.
var traces = map[string]struct {
	path     string
	requests int
}{
	"azure-code-like":            {"azure-llm-2023/AzureLLMInferenceTrace_code.csv", 8819},
	"mooncake-conversation-like": {"mooncake/conversation_first30min.jsonl", 5719},
	"arena-adapters-like":        {"arena-multilora/arena27_adapters_600s.csv", 1500},
	"alibaba-images-like":        {"alibaba-genai-2026/lora_request_trace.csv.gz", 26_798},
}

// repeats is the number of runs of a preset that a comparison covers. With a CV of 13, a single run as long as the
// trace has a rate that differs by 14 %.
const repeats = 40

// TestPresets compares the statistics of each preset with those of its trace: the rate, the CV, and the quantiles
// of lengths; and, if there are any, the shares of the most frequent models and adapters, and of reused blocks.
func TestPresets(t *testing.T) {
	for _, p := range Presets() {
		t.Run(p.Name, func(t *testing.T) {
			trace, err := Open(testkit.Shared(t, "data/traces/"+traces[p.Name].path), Options{})
			if err != nil {
				t.Fatal(err)
			}
			want, err := Measure(trace)
			if err != nil || want.Requests != traces[p.Name].requests {
				t.Fatalf("%d requests, %v", want.Requests, err)
			}
			got := measured(t, p.long())
			t.Logf("rate %.4f, trace %.4f; CV %.3f, %.3f", got.Rate(), want.Rate(), got.CV, want.CV)
			near(t, "rate", got.Rate(), want.Rate(), 0.05)
			near(t, "CV", got.CV, want.CV, 0.05)
			for _, share := range []float64{0.1, 0.25, 0.5, 0.75, 0.9, 0.99} {
				t.Logf("%.2f: prompts %d, %d; outputs %d, %d", share, got.Prompt(share), want.Prompt(share),
					got.Output(share), want.Output(share))
				near(t, "quantile of prompts", float64(got.Prompt(share)), float64(want.Prompt(share)), 0.06)
				near(t, "quantile of outputs", float64(got.Output(share)), float64(want.Output(share)), 0.06)
			}
			for _, n := range []int{1, 5} {
				t.Logf("the %d most frequent: models %.3f, %.3f; adapters %.3f, %.3f", n, Share(got.Models, n),
					Share(want.Models, n), Share(got.Adapters, n), Share(want.Adapters, n))
				tolerance := map[int]float64{1: 0.4, 5: 0.05}[n] // the traces do not follow a Zipf law closely
				near(t, "share of models", Share(got.Models, n), Share(want.Models, n), tolerance)
				near(t, "share of adapters", Share(got.Adapters, n), Share(want.Adapters, n), tolerance)
			}
			if len(got.Models) != len(want.Models) || len(got.Adapters) != len(want.Adapters) {
				t.Errorf("%d models and %d adapters, want %d and %d", len(got.Models), len(got.Adapters),
					len(want.Models), len(want.Adapters))
			}
			if p.Load.Conversation.Turns > 0 {
				reused := p.reused(t)
				t.Logf("reused blocks %.3f, %.3f", reused, want.Reused)
				near(t, "reused blocks", reused, want.Reused, 0.05)
			}
		})
	}
}

// long returns the load of a preset, repeats times as long. It has no conversations, since their reuse depends on
// the length.
func (p Preset) long() Load {
	l := p.Load
	l.Length *= repeats
	l.Conversation = Conversation{}
	return l
}

// reused returns the share of blocks that the prompts of a preset reuse, as a mean of several seeds.
func (p Preset) reused(t *testing.T) (mean float64) {
	const seeds = 8
	for seed := range uint64(seeds) {
		s, err := Measure(p.Load.Requests(seed))
		if err != nil {
			t.Fatal(err)
		}
		mean += s.Reused / seeds
	}
	return mean
}

// TestPresetsAreValid checks the presets without the traces.
func TestPresetsAreValid(t *testing.T) {
	named := map[string]bool{}
	for _, p := range Presets() {
		if err := p.Load.Check(); err != nil || named[p.Name] || p.Trace == "" {
			t.Errorf("%s: %v", p.Name, err)
		}
		named[p.Name] = true
	}
}

// TestServeGenTraces generates ten minutes of each model of ServeGen.
func TestServeGenTraces(t *testing.T) {
	dir := testkit.Shared(t, "data/traces/servegen")
	for model, want := range map[string]int{"m-small": 173_987, "mm-image": 3335} {
		rates, lengths := dir+"/rates_"+model+".csv.gz", dir+"/lengths_day1_"+model+".json.gz"
		s, err := OpenServeGen(rates, lengths, Options{Model: model})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.3f of the requests are of clients without lengths", model, s.OmitUnknown())
		m, err := Measure(s.Requests(1, 0, servegenWindow))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d requests, CV %.2f, prompts %d, %d, %d, outputs %d, %d, %d", model, m.Requests, m.CV,
			m.Prompt(0.1), m.Prompt(0.5), m.Prompt(0.9), m.Output(0.1), m.Output(0.5), m.Output(0.9))
		if m.Requests != want {
			t.Errorf("%s: %d requests, want %d", model, m.Requests, want)
		}
	}
}
