package peaks_test

import (
	"errors"
	"testing"

	"troupe/cuda/host"
	"troupe/cuda/peaks"
)

// TestMeasure checks that the peaks of a software device are measured, and that no memory is left.
func TestMeasure(t *testing.T) {
	d, err := host.Open(host.Config{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	before, _ := d.Memory()
	p, err := peaks.Measure(d)
	if err != nil || !p.Known() || p.Source != peaks.Source {
		t.Errorf("%+v, %v", p, err)
	}
	if after, _ := d.Memory(); after != before {
		t.Errorf("%d bytes are left", before-after)
	}
	t.Logf("%.1f GFLOP/s, %.1f GB/s", p.FLOPs/1e9, p.Bytes/1e9)
}

// TestMeasureFails checks that a device without memory or with a fault has no peaks, and keeps no memory.
func TestMeasureFails(t *testing.T) {
	for name, config := range map[string]host.Config{
		"no memory": {MemoryBytes: 1 << 20},
		"a fault": {MemoryBytes: 64 << 20, Inject: func(string) error {
			return errors.New("the test injects a fault")
		}},
	} {
		d, err := host.Open(config)
		if err != nil {
			t.Fatal(err)
		}
		before, _ := d.Memory()
		if p, err := peaks.Measure(d); err == nil || p.Known() {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		if after, _ := d.Memory(); after != before {
			t.Errorf("%s: %d bytes are left", name, before-after)
		}
		d.Close()
	}
}

// BenchmarkMeasure measures what a node spends on it when it starts.
func BenchmarkMeasure(b *testing.B) {
	d, err := host.Open(host.Config{MemoryBytes: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	for b.Loop() {
		p, err := peaks.Measure(d)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(p.FLOPs/1e9, "GFLOP/s")
		b.ReportMetric(p.Bytes/1e9, "GB/s")
	}
}
