package bulkbench_test

import (
	"fmt"
	"testing"

	"troupe/cluster/bulk/bulkbench"
)

// BenchmarkThroughput reports the data plane's throughput over that of a bare connection.
func BenchmarkThroughput(b *testing.B) {
	for _, chunk := range []int{64 << 10, 1280 << 10} {
		b.Run(fmt.Sprintf("chunk=%dKiB", chunk>>10), func(b *testing.B) {
			for b.Loop() {
				r, err := bulkbench.Measure(b.Context(), bulkbench.Config{ChunkBytes: chunk, Chunks: (64 << 20) / chunk, Rounds: 21})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(r.Ratio, "ratio")
				b.ReportMetric(r.Bulk/1e9, "GB/s")
				b.ReportMetric(r.Bare/1e9, "bare-GB/s")
				b.ReportMetric(r.BulkCPU, "cpu-s/GB")
				b.ReportMetric(r.BareCPU, "bare-cpu-s/GB")
			}
		})
	}
}
