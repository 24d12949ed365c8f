package costfile

import (
	"cmp"
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"troupe/core/cost"
)

// llama70B is Llama 2 70B in 16 bits, from the config.json of the published model.
var llama70B = cost.Model{
	Name: "llama2-70b", Layers: 80, Hidden: 8192, Intermediate: 28672, Vocab: 32000, Heads: 64, KVHeads: 8,
	HeadDim: 128, ContextTokens: 4096, WeightBits: 16, KVElementBytes: 2,
}

// splitwise has measured times of Llama 2 70B by tensor parallelism, prompt and batch, from
// github.com/mutinifni/splitwise-sim (MIT licence). It is below the folder shared beside the
// repository, or below $TROUPE_SHARED.
const splitwise = "data/traces/splitwise/perf_model.csv"

// TestPredictionsAgainstPublishedTimes logs how far predictions by the facts of the H100 are from
// published measurements: at the peak, and with the efficiency that fits the measurements with four
// devices best. docs/howto/calibrate.md has the errors. It checks that no decode is faster than the
// peak allows.
func TestPredictionsAgainstPublishedTimes(t *testing.T) {
	h100, err := Read("h100")
	if err != nil {
		t.Fatal(err)
	}
	predict := func(devices int, e cost.Efficiency) cost.Steps {
		p, err := h100.Device.Predict(llama70B, devices, e)
		if err != nil {
			t.Fatal(err)
		}
		return p.Steps.Steps
	}
	const fitted = 4
	possible := make(map[int][]cost.Measurement)
	for _, devices := range []int{2, fitted, 8} {
		peak, all := predict(devices, cost.Peak), published(t, "h100-80gb", devices)
		if len(all) < 20 {
			t.Fatalf("%d measurements with %d devices", len(all), devices)
		}
		for _, m := range all {
			switch least := peak.Time(m.Step); {
			case least <= m.Took:
				possible[devices] = append(possible[devices], m)
			case m.Step.Prompt == 0:
				t.Errorf("%d devices, %v: %v at the peak, published %v", devices, m.Step, least, m.Took)
			default:
				t.Logf("left out, since it is faster than the peak: %d devices, %v: %v, published %v", devices, m.Step,
					least, m.Took)
			}
		}
	}
	e, err := cost.FitEfficiency(predict(fitted, cost.Peak), possible[fitted])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("efficiency of %d devices: %.0f µs a step, %.0f %% of FLOPS, %.0f %% of bandwidth", fitted, e.FixedUS,
		100*e.Compute, 100*e.Memory)
	for _, devices := range []int{2, fitted, 8} {
		for _, kind := range []string{"prompt", "decode"} {
			part := split(possible[devices])[kind]
			t.Logf("%d devices, %s: at the peak %v", devices, kind, predict(devices, cost.Peak).Judge(part))
			t.Logf("%d devices, %s: with the efficiency %v", devices, kind, predict(devices, e).Judge(part))
		}
	}
}

// split divides measurements into prompts and decodes.
func split(all []cost.Measurement) map[string][]cost.Measurement {
	parts := make(map[string][]cost.Measurement)
	for _, m := range all {
		kind := "decode"
		if m.Step.Prompt > 0 {
			kind = "prompt"
		}
		parts[kind] = append(parts[kind], m)
	}
	return parts
}

// published are measured steps of Llama 2 70B: of one hardware and tensor parallelism, the medians of
// the repeats.
func published(t *testing.T, hardware string, devices int) (all []cost.Measurement) {
	f, err := os.Open(filepath.Join(cmp.Or(os.Getenv("TROUPE_SHARED"), "../../../shared"), splitwise))
	if err != nil {
		t.Skipf("no published measurements: %v", err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := make(map[string]int)
	for i, name := range rows[0] {
		column[name] = i
	}
	took := make(map[cost.Step][]time.Duration)
	for _, row := range rows[1:] {
		number := func(name string) float64 {
			v, err := strconv.ParseFloat(row[column[name]], 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		if row[column["model"]] != "llama2-70b" || row[column["hardware"]] != hardware ||
			int(number("tensor_parallel")) != devices {
			continue
		}
		prompt, batch, output := int(number("prompt_size")), int(number("batch_size")), int(number("token_size"))
		ms := func(name string) time.Duration { return time.Duration(1e6 * number(name)) }
		first, next := cost.Step{}, cost.Step{}
		for range batch {
			first, next = first.AddPrompt(prompt, 0), next.AddDecode(prompt+output/2)
		}
		took[first], took[next] = append(took[first], ms("prompt_time")), append(took[next], ms("token_time"))
	}
	for step, repeats := range took {
		slices.Sort(repeats)
		all = append(all, cost.Measurement{Step: step, Took: repeats[len(repeats)/2]})
	}
	return all
}
