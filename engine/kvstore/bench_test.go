package kvstore

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"troupe/cuda/host"
)

const (
	benchBytes = 5 << 20 // a block of 16 tokens of Llama-70B
	benchSlots = 32
)

// perBlock calls do for every slot, with depth concurrent workers, and returns the time taken.
func perBlock(b *testing.B, depth int, do func(worker int, slot int32) error) time.Duration {
	b.Helper()
	began := time.Now()
	var workers sync.WaitGroup
	for w := range depth {
		workers.Go(func() {
			for slot := w; slot < benchSlots; slot += depth {
				if err := do(w, int32(slot)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	workers.Wait()
	return time.Since(began)
}

func report(b *testing.B, store, bare time.Duration) {
	b.ReportMetric(bare.Seconds()/store.Seconds(), "of-bare")
	b.ReportMetric(float64(b.N)*benchSlots*benchBytes/store.Seconds()/1e9, "GB/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkArena copies blocks out of an arena, alternating with bare copies out of the same
// memory.
func BenchmarkArena(b *testing.B) {
	d, err := host.Open(host.Config{MemoryBytes: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	memory, err := d.AllocHost(benchSlots * benchBytes)
	if err != nil {
		b.Fatal(err)
	}
	a := NewArena(memory, benchSlots*benchBytes)
	into := make([]byte, benchBytes)
	perBlock(b, 1, func(_ int, slot int32) error {
		return a.Write(b.Context(), slot, testHash(int(slot)), content(int(slot), benchBytes))
	})
	var store, bare time.Duration
	for b.Loop() {
		store += perBlock(
			b,
			1,
			func(_ int, slot int32) error { return a.Read(b.Context(), slot, testHash(int(slot)), into) },
		)
		bare += perBlock(b, 1, func(_ int, slot int32) error { copy(into, a.block(slot, benchBytes)); return nil })
	}
	report(b, store, bare)
}

// BenchmarkFile reads and writes blocks of a file, alternating with bare O_DIRECT transfers of the
// same size.
func BenchmarkFile(b *testing.B) {
	cfg := FileConfig{Path: filepath.Join(b.TempDir(), "tier"), Slabs: cut(1, benchSlots, benchBytes)}
	f, _ := open(b, cfg)
	defer f.Close()
	raw, err := os.OpenFile(cfg.Path, os.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		b.Skip(err)
	}
	defer raw.Close()
	blocks, buffers := make([][]byte, defaultDepth), make([][]byte, defaultDepth)
	for i := range blocks {
		blocks[i], buffers[i] = content(i, benchBytes), aligned(benchBytes)
	}
	write := func(w int, slot int32) error { return f.Write(b.Context(), slot, testHash(w), blocks[w]) }
	b.Run("read", func(b *testing.B) {
		perBlock(b, defaultDepth, write)
		var store, bare time.Duration
		for b.Loop() {
			store += perBlock(
				b,
				defaultDepth,
				func(w int, slot int32) error { return f.Read(b.Context(), slot, testHash(w), blocks[w]) },
			)
			bare += perBlock(
				b,
				defaultDepth,
				func(w int, slot int32) error { _, err := raw.ReadAt(buffers[w], f.at(slot, benchBytes)); return err },
			)
		}
		report(b, store, bare)
	})
	b.Run("write", func(b *testing.B) {
		var store, bare time.Duration
		for b.Loop() {
			store += perBlock(b, defaultDepth, write)
			bare += perBlock(
				b,
				defaultDepth,
				func(w int, slot int32) error { _, err := raw.WriteAt(buffers[w], f.at(slot, benchBytes)); return err },
			)
		}
		report(b, store, bare)
	})
}
