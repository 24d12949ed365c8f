package main

import (
	"math/rand/v2"
	"slices"
)

// queue returns changes in the order in which they are made: one folder after the other, and of
// each the kind that was taken least often so far. The seed decides the rest.
func queue(seed uint64, byFolder [][]change) (all []change) {
	rng := rand.New(rand.NewPCG(seed, 0))
	left := make([]map[kind][]change, len(byFolder))
	for i, changes := range byFolder {
		left[i] = make(map[kind][]change)
		for _, c := range changes {
			left[i][c.kind] = append(left[i][c.kind], c)
		}
		for _, k := range kinds {
			of := left[i][k]
			rng.Shuffle(len(of), func(a, b int) { of[a], of[b] = of[b], of[a] })
		}
	}
	rng.Shuffle(len(left), func(a, b int) { left[a], left[b] = left[b], left[a] })
	taken := make(map[kind]int)
	for more := true; more; {
		more = false
		for _, of := range left {
			if k, ok := rarest(rng, of, taken); ok {
				more = true
				taken[k]++
				all = append(all, of[k][0])
				of[k] = of[k][1:]
			}
		}
	}
	return all
}

// rarest returns the kind of the remaining changes that was taken least often.
func rarest(rng *rand.Rand, of map[kind][]change, taken map[kind]int) (least kind, ok bool) {
	order := slices.Clone(kinds)
	rng.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
	for _, k := range order {
		if len(of[k]) > 0 && (!ok || taken[k] < taken[least]) {
			least, ok = k, true
		}
	}
	return least, ok
}
