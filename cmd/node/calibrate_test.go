package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"troupe/cluster/bulk/bulkbench"
	"troupe/core/cost"
	"troupe/cuda/host"
)

// TestProgressOnATerminal checks that the line of a terminal is rewritten in place, and removed at the end.
func TestProgressOnATerminal(t *testing.T) {
	var b strings.Builder
	p := &progress{to: &b, terminal: true}
	p.report("copies", 0)
	p.report("steps", 0.5)
	p.end()
	const clear = "\r\x1b[K"
	want := clear + strings.Repeat("░", 20) + "   0 %  copies" +
		clear + strings.Repeat("█", 10) + strings.Repeat("░", 10) + "  50 %  steps" + clear
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

// TestFileName checks that the file of a profile has no characters that a shell or a file system treats
// specially.
func TestFileName(t *testing.T) {
	for name, want := range map[string]string{
		"kjv-2m on host device":          "kjv-2m-on-host-device.yaml",
		"Llama 3.1/8B on NVIDIA H100 ¼!": "llama-3.1-8b-on-nvidia-h100---.yaml",
	} {
		if got := fileName(cost.Profile{Name: name}); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// TestMeasureNetwork checks that the cost of the network has its residuals and its origin, and is printed.
func TestMeasureNetwork(t *testing.T) {
	r, err := bulkbench.Receive("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	d, err := host.Open(host.Config{MemoryBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	k := calibrateCommand{Network: r.Ticket(), Time: time.Millisecond}
	is, err := k.measureNetwork(t.Context(), d, &progress{to: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	address, _, _ := strings.Cut(r.Ticket(), "/")
	if is.BytesPerSecond <= 0 || is.Residuals.Count != 6 || is.Origin.Measured == "" ||
		!strings.HasSuffix(is.Origin.On, ", to "+address) {
		t.Errorf("%+v", is)
	}
	var b bytes.Buffer
	transferred(&b, "to another node", is)
	if !strings.Contains(b.String(), "GB/s") {
		t.Error(b.String())
	}
	if none, err := (calibrateCommand{}).measureNetwork(t.Context(), d, nil); none != nil || err != nil {
		t.Errorf("%v %v", none, err)
	}
}

// TestNetworkOptions checks that a ticket that is not whole, and an address that cannot be dialled, are refused.
func TestNetworkOptions(t *testing.T) {
	k := calibrateCommand{Network: "10.0.0.2:7000", Devices: "auto", Time: 1, StepTokens: 16, MaxSequences: 4}
	if err := k.complete(); err == nil || !strings.Contains(err.Error(), "--network: ticket") {
		t.Error(err)
	}
	for _, listen := range []string{"7000", ":7000", "0.0.0.0:7000", "[::]:7000"} {
		err := receiveNetwork(t.Context(), console{out: io.Discard}, listen)
		if err == nil || !strings.Contains(err.Error(), "another machine can dial") {
			t.Errorf("%s: %v", listen, err)
		}
	}
}
