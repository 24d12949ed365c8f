package calibrate

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"troupe/core/cost"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/testkit"
)

// TestRunMeasuresEverything calibrates the shipped model on a software device. It checks the structure
// of the profile, and no time.
func TestRunMeasuresEverything(t *testing.T) {
	device, err := host.Open(host.Config{MemoryBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	peer, err := host.Open(host.Config{Index: 1, MemoryBytes: 128 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	scratch := t.TempDir()
	var progress []string
	all, err := Run(t.Context(), Config{
		Device: device, Peer: peer, Loader: llama.Loader{}, Models: []string{testkit.Model()}, Scratch: scratch,
		Time: time.Millisecond, Limits: engine.Limits{StepTokens: 128, MaxSequences: 8}, BlockTokens: 16,
		On: "a test", Progress: func(what string, share float64) {
			if share < 0 || share > 1 {
				t.Errorf("%s: progress %v", what, share)
			}
			progress = append(progress, what)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := all[0]
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	if m := p.Model; m.WeightBits != 32 || m.KVElementBytes != 4 || m.Layers != 6 || m.Name != "kjv-2m" {
		t.Errorf("model %+v", m)
	}
	if s := p.Steps; s.Largest.Prompt != 127 && s.Largest.Prompt != 128 || s.Largest.Decode != 8 ||
		s.Residuals.Count < cost.MinMeasurements || s.Time(cost.Step{Decode: 1}) <= 0 {
		t.Errorf("steps %+v", s)
	}
	for name, copies := range map[string]*cost.Transferred{
		"in": p.Copies.HostToDevice, "out": p.Copies.DeviceToHost, "within": p.Copies.WithinDevice,
		"peer": p.Copies.PeerToDevice, "read": p.Copies.DiskToHost, "write": p.Copies.HostToDisk,
		"folder": p.Loads.Folder, "image": p.Loads.DiskImage, "host": p.Loads.HostCache,
	} {
		if copies == nil || copies.Time(1<<20) <= 0 || copies.Residuals.Count < leastRounds ||
			copies.Origin.On != "a test" {
			t.Errorf("%s: %+v", name, copies)
		}
	}
	s := p.Switches
	for name, d := range map[string]*cost.Duration{
		"free": s.Free, "free weights": s.FreeWeights, "open": s.Open, "capture": s.Capture, "first": s.First,
		"standby": s.Standby, "activate": s.Activate, "park": s.Park,
	} {
		if d == nil || d.Count < leastRounds || d.MedianUS <= 0 || d.P95US < d.MedianUS {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if p.Noise == nil || len(progress) == 0 {
		t.Error("no noise, or no progress")
	}
	if free, total := device.Memory(); free != total {
		t.Errorf("%d bytes of device memory are left behind", total-free)
	}
	if left, _ := os.ReadDir(scratch); len(left) > 0 {
		t.Errorf("%d files are left behind, among them %s", len(left), left[0].Name())
	}
}

// TestGridCovers checks that the grid has each kind of step, within the limits.
func TestGridCovers(t *testing.T) {
	b := &bench{run: &run{Config: Config{
		Limits: engine.Limits{StepTokens: 512, MaxSequences: 64}, BlockTokens: 16,
	}}, info: engine.ModelInfo{Vocab: 100, ContextTokens: 1024}, random: rand.New(rand.NewPCG(1, 1))}
	b.spec.KVBlocks = 2048
	kinds := make(map[string]int)
	for _, p := range b.grid() {
		kind := ""
		for _, has := range []struct {
			name string
			n    int
		}{{"prompt", p.step.Prompt}, {"decode", p.step.Decode}, {"context", int(p.step.Context)}} {
			if has.n > 0 {
				kind += " " + has.name
			}
		}
		kinds[strings.TrimSpace(kind)]++
		used := make(map[int32]bool)
		for _, s := range p.batch {
			if len(s.Blocks)*16 < s.Position+len(s.Tokens) || s.Position+len(s.Tokens) > 1024 {
				t.Errorf("%v: %d blocks for %d tokens after %d", p.step, len(s.Blocks), len(s.Tokens), s.Position)
			}
			for _, block := range s.Blocks {
				if used[block] || block >= 2048 {
					t.Errorf("%v: block %d is used twice, or not there", p.step, block)
				}
				used[block] = true
			}
		}
	}
	if kinds["prompt"] < 4 || kinds["prompt context"] < 4 || kinds["decode context"] < 15 ||
		kinds["prompt decode context"] < 8 {
		t.Errorf("the grid has %v", kinds)
	}
}

func TestRunRefusesASmallDevice(t *testing.T) {
	device, err := host.Open(host.Config{MemoryBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	_, err = Run(t.Context(), Config{
		Device: device, Models: []string{testkit.Model()}, Scratch: t.TempDir(), Time: time.Millisecond,
		Limits: engine.Limits{StepTokens: 512, MaxSequences: 256}, BlockTokens: 16, On: "a test",
	})
	if err == nil || !strings.Contains(err.Error(), "use a larger device") {
		t.Errorf("%v, want a remedy", err)
	}
}

func TestNoise(t *testing.T) {
	quiet := []time.Duration{100, 101, 102, 103}
	loud := []time.Duration{100, 200, 300, 400}
	if n := noiseOf([][]time.Duration{quiet, quiet, quiet}); n.Noisy || n.Median > 0.03 {
		t.Errorf("quiet rounds have %+v", n)
	}
	if n := noiseOf([][]time.Duration{loud, loud, quiet}); !n.Noisy || n.Median != 1 {
		t.Errorf("loud rounds have %+v", n)
	}
}
