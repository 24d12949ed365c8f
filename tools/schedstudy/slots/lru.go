package slots

import "slices"

// LRU returns the loads of each model if each request loads its model at once into the slot that was used the longest
// ago. At the beginning the slots hold the given models, the one used last at the end.
func LRU(requests []Request, models int, held []int) (loads []int) {
	loads, held = make([]int, models), slices.Clone(held)
	for _, r := range requests {
		at := slices.Index(held, r.Model)
		if at < 0 {
			at = 0
			loads[r.Model]++
		}
		held = append(slices.Delete(held, at, at+1), r.Model)
	}
	return loads
}
