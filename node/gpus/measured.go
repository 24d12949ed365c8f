package gpus

import (
	"sync"

	"troupe/core/utilization"
	"troupe/cuda/host"
	"troupe/cuda/peaks"
)

// measureBytes is the memory of the device on which peaks are measured.
const measureBytes = 32 << 20

// measured are the peaks of software devices.
var measured softwarePeaks

// softwarePeaks are the peaks of software devices by their number of workers. Devices of a process with as many are
// equally fast, so they are measured once, on a device of their own.
type softwarePeaks struct {
	mu sync.Mutex
	by map[int]utilization.Peaks
}

// of returns the peaks of devices with the given number of workers. If they cannot be measured, they are unknown.
func (s *softwarePeaks) of(workers int) utilization.Peaks {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.by[workers]; ok {
		return known
	}
	d, err := host.Open(host.Config{MemoryBytes: measureBytes, Workers: workers})
	if err != nil {
		return utilization.Peaks{}
	}
	defer d.Close()
	found, err := peaks.Measure(d)
	if err != nil {
		return utilization.Peaks{}
	}
	if s.by == nil {
		s.by = make(map[int]utilization.Peaks)
	}
	s.by[workers] = found
	return found
}
