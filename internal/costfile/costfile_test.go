package costfile

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"troupe/core/cost"
)

// TestShippedFacts checks that every figure that ships names a public source and is not called measured.
func TestShippedFacts(t *testing.T) {
	if names := Shipped(); !reflect.DeepEqual(names, []string{"h100", "h200"}) {
		t.Fatalf("%v ship", names)
	}
	for _, name := range Shipped() {
		p, err := Read(name)
		if err != nil {
			t.Fatal(err)
		}
		d := p.Device
		for _, f := range []*cost.Fact{d.MemoryBytes, d.MemoryBandwidth, d.FLOPS, d.PCIeBandwidth, d.NVLinkBandwidth} {
			if f == nil || !strings.HasPrefix(f.Origin.String(), "not measured here: https://") {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if p.Steps != nil || p.Copies != (cost.Copies{}) {
			t.Errorf("%s has costs, which were not measured", name)
		}
	}
}

// TestWriteAndRead checks that a profile is the same after it was written and read.
func TestWriteAndRead(t *testing.T) {
	h200, err := Read("H200")
	if err != nil {
		t.Fatal(err)
	}
	p, err := h200.Device.Predict(llama70B, 2, cost.Efficiency{FixedUS: 3, Compute: 0.4, Memory: 0.7})
	if err != nil {
		t.Fatal(err)
	}
	measured := cost.Origin{Measured: "2026-11-23T22:50:00Z", On: "host device, 2 cores: idle"}
	p.Steps.Largest = cost.Step{Prompt: 512, Decode: 64, Context: 1 << 40}
	p.Steps.Residuals = cost.Residuals{Count: 40, Mean: 0.05, P50: 0.03, P95: 0.1, Worst: 1e-9,
		WorstAt: "prompt 1, decode 0"}
	p.Switches.Open = &cost.Duration{MedianUS: 1.5, P95US: 2, Count: 7, Origin: measured}
	p.Loads.Folder = &cost.Transferred{Linear: cost.Linear{LatencyUS: 2, BytesPerSecond: 3e9}, Origin: measured}
	p.Noise = &cost.Noise{Median: 0.2, P95: 0.3, Noisy: true}
	path := filepath.Join(t.TempDir(), "p.yaml")
	if err := Write(path, p); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, p) {
		b, _ := os.ReadFile(path)
		t.Errorf("got %+v\nwant %+v\n%s", got, p, b)
	}
	p.Name = ""
	if err := Write(path, p); err == nil {
		t.Error("an invalid profile is written")
	}
	if again, err := Read(path); err != nil || again.Name == "" {
		t.Errorf("the file was changed: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".profile-*")); len(left) > 0 {
		t.Errorf("%v are left behind", left)
	}
}

// TestStrict checks that mistakes are refused with the line and a remedy.
func TestStrict(t *testing.T) {
	const good = `version: 1
name: x
device:
  name: y
steps:
  form: sum
  fixed_us: 3
  origin: {source: z}
`
	if _, err := Parse("p", []byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, line, remedy string }{
		{"fixed_us", "fixed_ms", ">  7 |", "did you mean fixed_us?"},
		{"  name: y", "  name: y\n  colour: red", ">  5 |", "unknown key colour: remove it, or correct its name"},
		{"form: sum", "form: min", ">  6 |", `steps.form: is "min"; use sum or max`},
		{"fixed_us: 3", "fixed_us: -3", ">  7 |", "steps.fixed_us: is -3; it must be 0 or more"},
		{"fixed_us: 3", "fixed_us: .nan", ">  7 |", "it must be 0 or more"},
		{"fixed_us: 3", "fixed_us: soon", ">  7 |", "cannot unmarshal"},
		{"{source: z}", "{}", ">  8 |", "set measured"},
		{"version: 1", "version: 2", ">  1 |", "measure again with troupe calibrate"},
		{"name: x\n", "name: x\nname: x\n", ">  3 |", "already"},
		{"  name: y", "  software: true", ">  4 |", "device.name: is empty"},
	} {
		text := strings.Replace(good, c.from, c.to, 1)
		_, err := Parse("p", []byte(text))
		if err == nil || !strings.Contains(err.Error(), c.line) || !strings.Contains(err.Error(), c.remedy) {
			t.Errorf("%q: %v\nwant %q and %q", c.to, err, c.line, c.remedy)
		}
	}
	if _, err := Parse("p", nil); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("an empty profile: %v", err)
	}
	if _, err := Read("h300"); err == nil || !strings.Contains(err.Error(), "h100, h200") {
		t.Errorf("a profile that does not ship: %v", err)
	}
}
