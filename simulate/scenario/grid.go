package scenario

import (
	"fmt"
	"strings"

	"troupe/simulate"
)

// MaxPoints is the largest number of points of a grid.
const MaxPoints = 256

// Grid returns the points of a grid: each combination of the values of its axes, the values of the last
// axis next to each other. An axis is written "key=a,b,c"; a comma within brackets or quotes belongs to the
// value.
func Grid(axes []string) (points [][]simulate.Setting, err error) {
	points = [][]simulate.Setting{nil}
	seen := make(map[string]bool)
	for _, axis := range axes {
		key, list, ok := strings.Cut(axis, "=")
		values := values(list)
		switch {
		case !ok || key == "" || len(values) == 0:
			return nil, fmt.Errorf("%q has no values; write key=a,b,c with the path of a key in the scenario, such as "+
				"deployments.chat.replicas=1,2,4", axis)
		case seen[key]:
			return nil, fmt.Errorf("%s is there twice; write all of its values in one list", key)
		case len(points)*len(values) > MaxPoints:
			return nil, fmt.Errorf("the grid has more than %d points with %s; leave out some values", MaxPoints, key)
		}
		seen[key] = true
		var next [][]simulate.Setting
		for _, p := range points {
			for _, v := range values {
				next = append(next, append(p[:len(p):len(p)], simulate.Setting{Key: key, Value: v}))
			}
		}
		points = next
	}
	return points, nil
}

// values splits a list at the commas outside of brackets and quotes. Empty values are left out.
func values(list string) (all []string) {
	depth, quote, from := 0, rune(0), 0
	add := func(to int) {
		if v := strings.TrimSpace(list[from:to]); v != "" {
			all = append(all, v)
		}
	}
	for i, c := range list {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 0:
			add(i)
			from = i + 1
		}
	}
	add(len(list))
	return all
}
