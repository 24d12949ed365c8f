package record

import (
	"reflect"
	"testing"

	"troupe/messages"
	"troupe/recording"
)

// TestTiers checks that nodes are recorded with their KV tiers, and without them if they did not answer.
func TestTiers(t *testing.T) {
	dram := &messages.KvTier{Policy: "lru", Watermark: 0.5,
		Slots: &messages.SlotsStatus{Name: "dram", CapacityBytes: 1 << 30}}
	remote := &messages.KvTier{Slots: &messages.SlotsStatus{Name: "remote", CapacityBytes: 1 << 28}}
	got := withTiers([]recording.Node{{Name: "a"}, {Name: "b"}}, []*messages.KvNode{
		{Node: "b", Tiers: []*messages.KvTier{dram, remote}}, {Node: "c", Tiers: []*messages.KvTier{dram}}})
	want := []recording.Node{{Name: "a"}, {Name: "b", Tiers: []recording.Tier{
		{Name: "dram", Bytes: 1 << 30, Policy: "lru", Watermark: 0.5}, {Name: "remote", Bytes: 1 << 28}}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
