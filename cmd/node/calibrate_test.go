package main

import (
	"strings"
	"testing"

	"troupe/core/cost"
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
