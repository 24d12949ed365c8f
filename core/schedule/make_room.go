package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"troupe/core/hbm"
)

// Holder is a model that has replicas on a device.
type Holder struct {
	Model    string
	Replicas []string
	Need     hbm.Need // sum over the replicas, and the weights that no other model uses
}

// Bytes returns the bytes that the replicas count on the device.
func (h Holder) Bytes() int64 { return h.Need.Fixed + h.Need.Min }

// ParkCommand returns the command that makes the model leave its devices.
func (h Holder) ParkCommand() string { return fmt.Sprintf(`models.park {"name": %q}`, h.Model) }

// tenants are the models that may leave a device.
type tenants struct {
	device  string
	memory  hbm.Budget
	holders []Holder // their replicas are in memory
}

// makeRoom returns the device on which the fewest bytes would have to become free for a replica, and the
// models that would leave it. It returns none if no device would have room without other models.
func makeRoom(need hbm.Need, devices []tenants) (at string, leave []Holder) {
	for _, t := range devices {
		all := t.leave(need)
		if len(all) > 0 && (leave == nil ||
			cmp.Or(cmp.Compare(bytesOf(all), bytesOf(leave)), cmp.Compare(t.device, at)) < 0) {
			at, leave = t.device, all
		}
	}
	return at, leave
}

// leave returns the models that would have to leave for a replica: the smallest one that suffices, or
// the largest ones until they suffice, without those that are not needed for it.
func (t tenants) leave(need hbm.Need) (all []Holder) {
	small := slices.SortedFunc(slices.Values(t.holders), func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.Bytes(), b.Bytes()), cmp.Compare(a.Model, b.Model))
	})
	for _, h := range small {
		if t.without(h).short(need) == 0 {
			return []Holder{h}
		}
	}
	for _, h := range slices.Backward(small) {
		if t.without(all...).short(need) > 0 {
			all = append(all, h)
		}
	}
	if t.without(all...).short(need) > 0 {
		return nil
	}
	for _, h := range small {
		rest := slices.DeleteFunc(slices.Clone(all), func(o Holder) bool { return o.Model == h.Model })
		if t.without(rest...).short(need) == 0 {
			all = rest
		}
	}
	return all
}

// without returns the device as it would be without some models.
func (t tenants) without(all ...Holder) tenants {
	for _, h := range all {
		t.memory.Fixed -= h.Need.Fixed
		t.memory.Min -= h.Need.Min
		t.memory.Replicas -= len(h.Replicas)
	}
	return t
}

// short returns the number of bytes missing for a replica, or 0.
func (t tenants) short(need hbm.Need) int64 {
	if _, over := t.memory.Add(need); over != nil {
		return over.Short
	}
	return 0
}

func bytesOf(all []Holder) (bytes int64) {
	for _, h := range all {
		bytes += h.Bytes()
	}
	return bytes
}
