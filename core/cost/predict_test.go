package cost

import (
	"errors"
	"math"
	"testing"
	"time"
)

// llama70B is Llama 2 70B in 16 bits, from the config.json of the published model.
var llama70B = Model{
	Name: "llama2-70b", Layers: 80, Hidden: 8192, Intermediate: 28672, Vocab: 32000, Heads: 64, KVHeads: 8,
	HeadDim: 128, ContextTokens: 4096, WeightBits: 16, KVElementBytes: 2,
}

func fact(v float64) *Fact { return &Fact{Value: v, Origin: Origin{Source: "test"}} }

// round has facts that make sums by hand easy.
var round = Device{Name: "round", MemoryBandwidth: fact(1e12), FLOPS: fact(1e15), PCIeBandwidth: fact(5e10),
	NVLinkBandwidth: fact(4e11)}

// TestPredict compares with sums by hand. The layers of Llama 2 70B have 68,976,648,192 − 2 · 32,000 ·
// 8,192 = 68,452,360,192 weights, and its output projection has 262,144,000.
func TestPredict(t *testing.T) {
	p, err := round.Predict(llama70B, 1, Peak)
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-6*want {
			t.Errorf("%s: %v µs, want %v", what, got, want)
		}
	}
	near("prompt token", p.Steps.PromptTokenUS, 2*68_452_360_192/1e9)
	near("decode sequence", p.Steps.DecodeSequenceUS, 2*68_714_504_192/1e9)
	near("prompt pair", p.Steps.PromptPairUS, 4*80*64*128/1e9)
	near("weights", p.Steps.WeightsUS, 2*68_714_504_192/1e6)
	near("context token", p.Steps.ContextTokenUS, 327_680/1e6)
	two, err := round.Predict(llama70B, 2, Efficiency{FixedUS: 50, Compute: 0.5, Memory: 0.25})
	if err != nil {
		t.Fatal(err)
	}
	near("all-reduce of two devices", two.Steps.PromptTokenUS-p.Steps.PromptTokenUS, 2*2*80*2*8192/4e5)
	near("a quarter of the bandwidth of two", two.Steps.WeightsUS, 2*p.Steps.WeightsUS)
	near("fixed", two.Steps.FixedUS, 50)
	if err := two.Check(); err != nil {
		t.Errorf("a prediction is no valid profile: %v", err)
	}
	if took := p.Copies.HostToDevice.Time(5e10); took != time.Second {
		t.Errorf("50 GB at 50 GB/s take %v", took)
	}
}

func TestPredictRefuses(t *testing.T) {
	bare := round
	bare.NVLinkBandwidth = nil
	for name, try := range map[string]func() error{
		"no facts":     func() error { _, err := (Device{Name: "x"}).Predict(llama70B, 1, Peak); return err },
		"no devices":   func() error { _, err := round.Predict(llama70B, 0, Peak); return err },
		"no NVLink":    func() error { _, err := bare.Predict(llama70B, 2, Peak); return err },
		"no share":     func() error { _, err := round.Predict(llama70B, 1, Efficiency{}); return err },
		"above a peak": func() error { _, err := round.Predict(llama70B, 1, Efficiency{0, 1.1, 1}); return err },
	} {
		if try() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestFitEfficiencyRecovers fits the efficiency to times of a known one with 2 % of noise.
func TestFitEfficiencyRecovers(t *testing.T) {
	known := Efficiency{FixedUS: 900, Compute: 0.45, Memory: 0.7}
	p, err := round.Predict(llama70B, 2, Peak)
	if err != nil {
		t.Fatal(err)
	}
	all := measure(known.apply(p.Steps.Steps), 0.02, 3)
	for prompt := 1024; prompt <= 8192; prompt += 1024 { // bound by compute
		step := Step{}.AddPrompt(prompt, 0)
		all = append(all, Measurement{step, known.apply(p.Steps.Steps).Time(step)})
	}
	got, err := FitEfficiency(p.Steps.Steps, all)
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2]float64{
		"compute": {got.Compute, known.Compute}, "memory": {got.Memory, known.Memory},
	} {
		if math.Abs(pair[0]-pair[1]) > 0.05*pair[1] {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
	if _, err := FitEfficiency(Steps{Form: Sum}, measure(knownSum, 0, 1)); err == nil {
		t.Error("costs that are no prediction are accepted")
	}
	if fast, err := FitEfficiency(p.Steps.Steps, measure(Steps{FixedUS: 1}, 0, 1)); err != nil || fast.check() != nil {
		t.Errorf("times below the peak give %+v, %v", fast, err)
	}
}

// TestCheckNamesTheKey breaks a valid profile in several places.
func TestCheckNamesTheKey(t *testing.T) {
	for key, change := range map[string]func(*Profile){
		"version":                          func(p *Profile) { p.Version = 9 },
		"name":                             func(p *Profile) { p.Name = "" },
		"device.name":                      func(p *Profile) { p.Device.Name = "" },
		"device.flops.value":               func(p *Profile) { p.Device.FLOPS = fact(0) },
		"device.flops.origin":              func(p *Profile) { p.Device.FLOPS = &Fact{Value: 1} },
		"model.layers":                     func(p *Profile) { p.Model.Layers = 0 },
		"steps.form":                       func(p *Profile) { p.Steps.Form = "min" },
		"steps.weights_us":                 func(p *Profile) { p.Steps.WeightsUS = math.NaN() },
		"steps.origin":                     func(p *Profile) { p.Steps.Origin = Origin{Measured: "x", Source: "y"} },
		"steps.origin.on":                  func(p *Profile) { p.Steps.Origin = Origin{Measured: "x"} },
		"copies.host_to_device.latency_us": func(p *Profile) { p.Copies.HostToDevice.LatencyUS = -1 },
		"switches.open.origin":             func(p *Profile) { p.Switches.Open = &Duration{} },
		"copies.network.bytes_per_second":  func(p *Profile) { p.Copies.Network = &Transferred{Linear: Linear{1, -1}} },
		"copies.peer_to_device.origin":     func(p *Profile) { p.Copies.PeerToDevice.Origin = Origin{} },
	} {
		p, err := round.Predict(llama70B, 1, Peak)
		if err != nil {
			t.Fatal(err)
		}
		change(&p)
		var invalid *Invalid
		if err := p.Check(); !errors.As(err, &invalid) || invalid.Key != key {
			t.Errorf("%s: %v", key, err)
		}
	}
}
