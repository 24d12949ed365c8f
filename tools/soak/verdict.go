package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// bounds are the limits of each series' growth over the second half of a run, in its unit. A leak
// of 1 KiB per request exceeds them within a run of 30 minutes.
var bounds = [4]float64{4, 24, 20, 10}

var units = [4]string{"MiB", "MiB", "", ""}

// judge describes each series of each node over the second half of the run. It returns an error
// that names those that grow.
func judge(samples []sample) (text string, err error) {
	var b strings.Builder
	var grown []error
	for _, node := range nodesOf(samples) {
		for i, name := range series {
			x, y := secondHalf(samples, node, i)
			slope := theilSen(x, y)
			growth := slope * (x[len(x)-1] - x[0])
			state := "flat"
			if growth > bounds[i] {
				state = "GROWS"
				grown = append(grown, fmt.Errorf("%s of %s grows by %.1f %s in %.0f s, more than %g",
					name, node, growth, units[i], x[len(x)-1]-x[0], bounds[i]))
			}
			fmt.Fprintf(&b, "%-3s %-16s median %8.1f %-3s growth %+7.2f of at most %g: %s\n",
				node, name, median(y), units[i], growth, bounds[i], state)
		}
	}
	return b.String(), errors.Join(grown...)
}

func nodesOf(samples []sample) (names []string) {
	for _, s := range samples {
		if !slices.Contains(names, s.node) {
			names = append(names, s.node)
		}
	}
	return names
}

// secondHalf returns the times in seconds and the values of a series in the second half of the run.
func secondHalf(samples []sample, node string, series int) (x, y []float64) {
	middle := samples[len(samples)-1].at / 2
	for _, s := range samples {
		if s.node == node && s.at >= middle {
			x, y = append(x, s.at.Seconds()), append(y, s.values[series])
		}
	}
	return x, y
}

// theilSen returns the median slope of all pairs of points, which a few outliers do not change.
func theilSen(x, y []float64) float64 {
	var slopes []float64
	for i := range x {
		for j := range i {
			if x[i] != x[j] {
				slopes = append(slopes, (y[i]-y[j])/(x[i]-x[j]))
			}
		}
	}
	return median(slopes)
}

// median returns the median, or 0 for no values.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
