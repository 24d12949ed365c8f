package bulkbench_test

import (
	"fmt"
	"testing"

	"troupe/cluster/bulk/bulkbench"
)

// BenchmarkThroughput reports the data plane's throughput relative to a bare connection.
func BenchmarkThroughput(b *testing.B) {
	server, client, err := bulkbench.MutualTLS()
	if err != nil {
		b.Fatal(err)
	}
	for _, cfg := range []bulkbench.Config{{}, {Server: server, Client: client}} {
		for _, chunk := range []int{64 << 10, 1280 << 10} {
			cfg.ChunkBytes, cfg.Chunks, cfg.Rounds = chunk, (64<<20)/chunk, 21
			b.Run(
				fmt.Sprintf("tls=%t/chunk=%dKiB", cfg.Server != nil, chunk>>10),
				func(b *testing.B) { measure(b, cfg) },
			)
		}
	}
}

func measure(b *testing.B, cfg bulkbench.Config) {
	for b.Loop() {
		r, err := bulkbench.Measure(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(r.Ratio, "ratio")
		b.ReportMetric(r.Bulk/1e9, "GB/s")
		b.ReportMetric(r.Bare/1e9, "bare-GB/s")
		b.ReportMetric(r.BulkCPU, "cpu-s/GB")
		b.ReportMetric(r.BareCPU, "bare-cpu-s/GB")
	}
}

// TestMeasure runs a short measurement of each kind.
func TestMeasure(t *testing.T) {
	server, client, err := bulkbench.MutualTLS()
	if err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []bulkbench.Config{{}, {Server: server, Client: client}} {
		cfg.ChunkBytes, cfg.Chunks, cfg.Rounds = 64<<10, 32, 3
		r, err := bulkbench.Measure(t.Context(), cfg)
		if err != nil || r.Ratio <= 0 || r.Bulk <= 0 || r.Bare <= 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
}
