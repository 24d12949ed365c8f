package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"troupe/core/units"
	"troupe/cuda/host"
	"troupe/cuda/simulated"
	"troupe/internal/costfile"
)

const (
	maxDevices     = 64
	maxSimulated   = 1024
	minDeviceBytes = 16 << 20
	// assumedMemory is used if the operating system does not report its memory.
	assumedMemory = 4 << 30
)

// autoDevices selects all GPUs of this machine, or one software GPU if it has none.
const autoDevices = "auto"

// parseDevices parses "auto" or "host:COUNTxSIZE", which may end in "xTHREADS". For auto it returns nil.
func parseDevices(s string) ([]host.Config, error) {
	if s == autoDevices {
		return nil, nil
	}
	count, size, ok := strings.Cut(strings.TrimPrefix(s, "host:"), "x")
	if !ok || !strings.HasPrefix(s, "host:") {
		return nil, fmt.Errorf("invalid devices %q; write auto, or host:2x512MiB for two software GPUs of 512 MiB", s)
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > maxDevices {
		return nil, fmt.Errorf("%q: %s devices, want 1 to %d", s, count, maxDevices)
	}
	size, threads, limited := strings.Cut(size, "x")
	workers := 0
	if limited {
		if workers, err = strconv.Atoi(threads); err != nil || workers < 1 {
			return nil, fmt.Errorf("%q: %s threads, want 1 or more, such as host:2x512MiBx1", s, threads)
		}
	}
	bytes, err := units.ParseBytes(size)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", s, err)
	}
	if bytes < minDeviceBytes {
		return nil, fmt.Errorf("%q: a device of %s is too small for a model; use %s or more",
			s, units.FormatBytes(bytes), units.FormatBytes(minDeviceBytes))
	}
	return hostDevices(n, bytes, workers), nil
}

// parseSimulated parses "COUNTxPROFILE" or "COUNTxGROUPxPROFILE", such as 16xh200 or 8x2xh200. An empty string is
// none.
func parseSimulated(s string) ([]simulated.Config, error) {
	if s == "" {
		return nil, nil
	}
	numbers, name := [2]int{1: 1}, s
	for i := range numbers {
		count, rest, ok := strings.Cut(name, "x")
		n, err := strconv.Atoi(count)
		if i > 0 && (!ok || err != nil) {
			break // the name of the profile
		}
		if !ok || err != nil || n < 1 || n > maxSimulated {
			return nil, fmt.Errorf("invalid simulated devices %q; write 16xh200 for 16 devices with the profile "+
				"h200, or 8x2xh200 for 8 groups of 2, which compute together; at most %d", s, maxSimulated)
		}
		numbers[i], name = n, rest
	}
	profile, err := costfile.Read(name)
	if err != nil {
		return nil, err
	}
	if d := profile.Device; d.MemoryBytes == nil || d.FLOPS == nil || d.MemoryBandwidth == nil ||
		numbers[1] > 1 && d.NVLinkBandwidth == nil {
		return nil, fmt.Errorf("%q: the profile needs memory_bytes, flops and memory_bandwidth of the device, and "+
			"for a group nvlink_bandwidth", s)
	}
	devices := make([]simulated.Config, numbers[0])
	for i := range devices {
		devices[i].Profile, devices[i].Group = profile, numbers[1]
	}
	return devices, nil
}

// hostDevices returns n software devices that compute with at most so many threads each; 0: as many as there are cores.
func hostDevices(n int, bytes int64, threads int) []host.Config {
	devices := make([]host.Config, n)
	for i := range devices {
		devices[i] = host.Config{Index: i, MemoryBytes: bytes, Workers: threads}
	}
	return devices
}

// machineMemory returns the memory of this machine in bytes, from /proc/meminfo.
func machineMemory() int64 {
	in, err := os.Open("/proc/meminfo")
	if err != nil {
		return assumedMemory
	}
	defer in.Close()
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var kib int64
		if _, err := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return assumedMemory
}
