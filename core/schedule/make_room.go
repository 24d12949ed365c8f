package schedule

import (
	"cmp"
	"slices"

	"troupe/core/hbm"
)

// Holder is a model that has replicas on a GPU.
type Holder struct {
	Model    string
	Replicas []string
	Need     hbm.Need // sum over the replicas, and the weights that no other model uses
}

// Bytes returns the bytes that the replicas count on the GPU.
func (h Holder) Bytes() int64 { return h.Need.Fixed + h.Need.Min }

// MakeRoom returns the GPU on which the fewest bytes would have to become free for a replica, and the
// models that would leave it. It returns none if no GPU would have room without other models.
func MakeRoom(need hbm.Need, gpus []GPU) (at GPU, leave []Holder) {
	for _, g := range gpus {
		if !g.usable() {
			continue
		}
		all := g.leave(need)
		if len(all) > 0 && (leave == nil || cmp.Or(cmp.Compare(bytesOf(all), bytesOf(leave)),
			cmp.Compare(g.Node, at.Node), cmp.Compare(g.Name, at.Name)) < 0) {
			at, leave = g, all
		}
	}
	return at, leave
}

// leave returns the models that would have to leave for a replica: the smallest one that suffices, or
// the largest ones until they suffice, without those that are not needed for it.
func (g GPU) leave(need hbm.Need) (all []Holder) {
	small := slices.SortedFunc(slices.Values(g.Holders), func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.Bytes(), b.Bytes()), cmp.Compare(a.Model, b.Model))
	})
	for _, h := range small {
		if g.without(h).short(need) == 0 {
			return []Holder{h}
		}
	}
	for _, h := range slices.Backward(small) {
		if g.without(all...).short(need) > 0 {
			all = append(all, h)
		}
	}
	if g.without(all...).short(need) > 0 {
		return nil
	}
	for _, h := range small {
		rest := slices.DeleteFunc(slices.Clone(all), func(o Holder) bool { return o.Model == h.Model })
		if g.without(rest...).short(need) == 0 {
			all = rest
		}
	}
	return all
}

// without returns the GPU as it would be without some models.
func (g GPU) without(all ...Holder) GPU {
	for _, h := range all {
		g.Memory.Fixed -= h.Need.Fixed
		g.Memory.Min -= h.Need.Min
		g.Memory.Replicas -= len(h.Replicas)
	}
	return g
}

func bytesOf(all []Holder) (bytes int64) {
	for _, h := range all {
		bytes += h.Bytes()
	}
	return bytes
}
