package sample

import "math"

// candidate is a token with its unnormalized probability.
type candidate struct {
	id     uint32
	weight float64
}

// before orders candidates by descending weight; on a tie, the lower ID comes first.
func (c candidate) before(d candidate) bool {
	return c.weight > d.weight || c.weight == d.weight && c.id < d.id
}

// filter returns the tokens that may be chosen: softmax at the temperature, filtered by min_p, then
// top_k, then top_p.
func (p Params) filter(logits []float32) []candidate {
	top, temperature := logits[argmax(logits)], float64(p.Temperature)
	all := make([]candidate, 0, len(logits))
	for i, v := range logits {
		if w := math.Exp(-belowTop(v, top) / temperature); w > 0 && w >= float64(p.MinP) {
			all = append(all, candidate{uint32(i), w})
		}
	}
	if p.TopK > 0 && p.TopK < len(all) {
		all = likeliest(all, p.TopK, math.Inf(1))
	}
	// Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020.
	if p.TopP > 0 && p.TopP < 1 {
		all = likeliest(all, len(all), float64(p.TopP)*sum(all))
	}
	return all
}

func sum(all []candidate) (total float64) {
	for _, c := range all {
		total += c.weight
	}
	return total
}

// likeliest returns the n candidates with the largest weights, least likely first. It returns fewer
// if their total weight reaches enough. It is a heapsort that stops early: vocabularies are large,
// and few candidates are kept.
func likeliest(all []candidate, n int, enough float64) []candidate {
	for i := len(all)/2 - 1; i >= 0; i-- {
		sift(all, i)
	}
	var weight float64
	end := len(all)
	for ; end > 0 && len(all)-end < n && weight < enough; end-- {
		weight += all[0].weight
		all[0], all[end-1] = all[end-1], all[0]
		sift(all[:end-1], 0)
	}
	return all[end:]
}

// sift moves candidate i down the heap until no child precedes it.
func sift(heap []candidate, i int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && heap[child+1].before(heap[child]) {
			child++
		}
		if heap[i].before(heap[child]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}

// draw returns the candidate at point u in [0, 1) of the cumulative weights.
func draw(all []candidate, u float64) uint32 {
	if len(all) == 0 {
		return 0
	}
	point := u * sum(all)
	for _, c := range all {
		if point -= c.weight; point < 0 {
			return c.id
		}
	}
	return all[len(all)-1].id
}
