package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"troupe/node"
)

var gpuName = regexp.MustCompile(`^gpu-(0|[1-9][0-9]*)$`)

// parseReserve parses "0.3" or "0.3,gpu-1=0.5" into shares by GPU name; "" is the share of all
// others.
func parseReserve(s string) (map[string]float64, error) {
	shares := make(map[string]float64)
	for _, part := range strings.Split(s, ",") {
		name, text, named := strings.Cut(part, "=")
		if !named {
			name, text = "", part
		}
		share, err := strconv.ParseFloat(text, 64)
		_, twice := shares[name]
		if err != nil || !(share >= 0 && share < 1) || twice || named && !gpuName.MatchString(name) {
			return nil, fmt.Errorf(
				"%q is not a share of GPU memory from 0 to below 1; write it like 0.3, or 0.3,gpu-1=0.5", s)
		}
		shares[name] = share
	}
	return shares, nil
}

// setKVReserve sets the KV reserve of each GPU. Call it after openDevices, which determines their
// names.
func (s *settings) setKVReserve(cfg *node.Config) (err error) {
	if s.KVReserve == "" {
		return nil
	}
	if cfg.KVReserve, err = parseReserve(s.KVReserve); err != nil {
		return err
	}
	var names []string
	for i := range len(cfg.GPUs) + len(cfg.Devices) {
		names = append(names, fmt.Sprintf("gpu-%d", i))
	}
	for name := range cfg.KVReserve {
		if name != "" && !slices.Contains(names, name) {
			return fmt.Errorf("--kv-reserve (or kv_reserve): no GPU %s; this node has %s", name,
				strings.Join(names, ", "))
		}
	}
	return nil
}
