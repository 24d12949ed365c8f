package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
)

// driverRounds is the number of runs of each of the package's benchmarks.
const driverRounds = 5

// driverLayer runs the benchmarks of cuda/driver, which use unexported parts of the package.
func driverLayer() (section, error) {
	s := section{
		title: "The driver layer, on a stand-in for a GPU's library",
		how: "No GPU was used: the library is testkit's libcuda.so.1, whose copies are memcpy on threads that share " +
			"the cores with the caller. The figures show what the layer costs its caller, " +
			"and nothing of a GPU. A copy goes through a stream of cuda/driver, 16 to a round, or by the library's " +
			"own function. A command is a call of a function that does nothing.",
	}
	cmd := exec.Command(
		"go",
		"test",
		"./cuda/driver",
		"-run",
		"^$",
		"-bench",
		"^(BenchmarkCross|BenchmarkCopy)$/^(list=64|KiB=1280)$",
		"-count",
		strconv.Itoa(driverRounds),
	)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return s, fmt.Errorf("%w: %s", err, out)
	}
	ratio, err := metric(out, "x-of-bare")
	if err != nil {
		return s, err
	}
	each, err := metric(out, "ns/command")
	if err != nil {
		return s, err
	}
	s.rows = []row{
		{"copies of 1.25 MiB to the device: bandwidth over that of the bare " +
			"call", fmt.Sprintf("%.2f", ratio), "0.97 or more", yesNo(ratio >= 0.97)},
		{
			"call into the library, per command in a list of 64",
			fmt.Sprintf("%.1f ns", each),
			"under 20 ns",
			yesNo(each < 20),
		},
	}
	return s, nil
}

// metric returns the median of the benchmarks' results in a unit.
func metric(out []byte, unit string) (float64, error) {
	var all []float64
	for _, found := range regexp.MustCompile(`([0-9.e+-]+) `+regexp.QuoteMeta(unit)+`\b`).FindAllSubmatch(out, -1) {
		v, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			return 0, err
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("no result in %s; install gcc: %s", unit, out)
	}
	return median(all), nil
}
