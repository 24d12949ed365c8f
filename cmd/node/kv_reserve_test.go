package main

import (
	"maps"
	"strings"
	"testing"

	"troupe/cuda/host"
	"troupe/node"
)

func TestKVReserve(t *testing.T) {
	for text, want := range map[string]map[string]float64{
		"0.25":            {"": 0.25},
		"0":               {"": 0},
		"gpu-1=0.5":       {"gpu-1": 0.5},
		"0.3,gpu-1=0.125": {"": 0.3, "gpu-1": 0.125},
	} {
		s, cfg := settings{Options: Options{KVReserve: text}}, node.Config{Devices: make([]host.Config, 2)}
		if err := s.setKVReserve(&cfg); err != nil || !maps.Equal(cfg.KVReserve, want) {
			t.Errorf("%q: %v, %v", text, cfg.KVReserve, err)
		}
	}
	for _, text := range []string{
		"1", "-0.1", "x", "0.3,0.4", "gpu-1", "gpu-01=0.2", "gpu-1=0.2,gpu-1=0.3", "NaN", "0.3,",
	} {
		if got, err := parseReserve(text); err == nil {
			t.Errorf("%q parsed as %v", text, got)
		}
	}
	s, cfg := settings{Options: Options{KVReserve: "gpu-2=0.5"}}, node.Config{Devices: make([]host.Config, 2)}
	if err := s.setKVReserve(&cfg); err == nil ||
		!strings.Contains(err.Error(), "no GPU gpu-2; this node has gpu-0, gpu-1") {
		t.Error(err)
	}
}
