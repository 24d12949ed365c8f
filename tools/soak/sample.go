package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"troupe/testkit/cluster"
)

// series names the sampled values.
var series = []string{"live heap", "resident memory", "goroutines", "descriptors"}

// sample is the resources of a node's process at one moment.
type sample struct {
	node   string
	at     time.Duration // since the first sample
	values [4]float64    // by series; memory in MiB
}

const mebibyte = 1 << 20

// sampleNodes samples the nodes for the given length.
func sampleNodes(ctx context.Context, nodes []*cluster.Node, length, every time.Duration) (all []sample, err error) {
	began := time.Now()
	for next := began; time.Since(began) < length; next = next.Add(every) {
		if err := pause(ctx, time.Until(next)); err != nil {
			return nil, err
		}
		for _, n := range nodes {
			s := sample{node: n.Name, at: time.Since(began)}
			if s.values, err = measure(ctx, n); err != nil {
				return nil, err
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// measure reads the live heap as of the last garbage collection, and the current values of the
// other measurements.
func measure(ctx context.Context, n *cluster.Node) (v [4]float64, err error) {
	heap, err := n.Gauge(ctx, "go_gc_heap_live_bytes")
	if err != nil {
		return v, err
	}
	goroutines, err := n.Gauge(ctx, "go_goroutines")
	if err != nil {
		return v, err
	}
	proc := filepath.Join("/proc", strconv.Itoa(n.Process().PID()))
	resident, err := residentBytes(filepath.Join(proc, "statm"))
	if err != nil {
		return v, err
	}
	open, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return v, err
	}
	return [4]float64{
		float64(heap) / mebibyte, float64(resident) / mebibyte, float64(goroutines), float64(len(open)),
	}, nil
}

func residentBytes(statm string) (int, error) {
	text, err := os.ReadFile(statm)
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("%s: %q", statm, text)
	}
	pages, err := strconv.Atoi(string(fields[1]))
	return pages * os.Getpagesize(), err
}

func writeCSV(path string, samples []sample) error {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	header := []string{"node", "seconds", "live_heap_mib", "resident_mib", "goroutines", "descriptors"}
	_ = w.Write(header) // see w.Error
	for _, s := range samples {
		row := []string{s.node, strconv.FormatFloat(s.at.Seconds(), 'f', 1, 64)}
		for i, v := range s.values {
			row = append(row, strconv.FormatFloat(v, 'f', []int{2, 1, 0, 0}[i], 64))
		}
		_ = w.Write(row) // see w.Error
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
