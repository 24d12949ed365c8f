package plan

import "cmp"

// Bounds are the least and the most replicas that the planner may choose. What is not given (0) is as replicas, and that
// is 1 where it is not given either.
func Bounds(replicas, least, most int) (low, high int) {
	replicas = max(1, replicas)
	low = cmp.Or(least, min(replicas, cmp.Or(most, replicas)))
	return low, max(low, cmp.Or(most, replicas))
}

// Count is how many replicas a deployment is to have: replicas, within its bounds.
func Count(replicas, least, most int) int {
	low, high := Bounds(replicas, least, most)
	return min(max(replicas, low), high)
}
