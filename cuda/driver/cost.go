//go:build linux

package driver

import (
	"runtime"
	"slices"
	"time"
)

// CrossingCost measures the time per command of a list of 64 commands. Each command calls the
// cheapest function that every driver has. The result is the median of several rounds.
func (l *Library) CrossingCost() time.Duration {
	const n, rounds, lists = 64, 21, 200
	version := out[int32]()
	defer runtime.KeepAlive(version)
	commands := slices.Repeat([]command{{fn: l.DriverVersion.at, args: [maxArgs]uintptr{address(version)}}}, n)
	var times []time.Duration
	for range rounds {
		start := time.Now()
		for range lists {
			cross(commands)
		}
		times = append(times, time.Since(start)/(n*lists))
	}
	slices.Sort(times)
	return times[rounds/2]
}

// CrossingCost returns Library.CrossingCost of this machine's library.
func CrossingCost() (time.Duration, error) {
	l, err := system()
	if err != nil {
		return 0, err
	}
	return l.CrossingCost(), nil
}
