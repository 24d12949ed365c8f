package adapteruse_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"troupe/node/adapteruse"
)

var start = time.Unix(1_700_000_000, 0)

// TestRecord checks what is counted for each adapter, and the selection by model and adapter.
func TestRecord(t *testing.T) {
	var r adapteruse.Record
	psalms, job := adapteruse.Key{Model: "kjv", Adapter: "psalms@1"}, adapteruse.Key{Model: "kjv", Adapter: "job@2"}
	other := adapteruse.Key{Model: "other", Adapter: "psalms@1"}
	r.Loaded(psalms)
	r.Served(psalms, start)
	r.Served(psalms, start.Add(time.Minute))
	r.Loaded(job)
	r.Served(other, start)
	all := []adapteruse.Use{
		{Key: job, Loads: 1}, {Key: psalms, Sequences: 2, Loads: 1, LastUsed: start.Add(time.Minute)},
		{Key: other, Sequences: 1, LastUsed: start},
	}
	for name, c := range map[string]struct {
		model, adapter string
		want           []adapteruse.Use
	}{
		"all": {"", "", all}, "of a model": {"kjv", "", all[:2]}, "one": {"kjv", "psalms@1", all[1:2]},
		"of no model": {"none", "", nil},
	} {
		if got := r.All(c.model, c.adapter); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestLimit checks that the adapters without an event for longest are forgotten.
func TestLimit(t *testing.T) {
	var r adapteruse.Record
	key := func(i int) adapteruse.Key { return adapteruse.Key{Model: "m", Adapter: fmt.Sprintf("a-%d@1", i)} }
	for i := range adapteruse.Limit {
		r.Loaded(key(i))
	}
	r.Served(key(0), start)
	r.Loaded(key(adapteruse.Limit))
	if n := len(r.All("", "")); n != adapteruse.Limit {
		t.Errorf("%d adapters, want %d", n, adapteruse.Limit)
	}
	if len(r.All("", "a-0@1")) != 1 || len(r.All("", "a-1@1")) != 0 {
		t.Error("the adapter that was used again is forgotten, or the oldest one is not")
	}
}

// TestPopular checks that older sequences count less, and that adapters without sequences are left out.
func TestPopular(t *testing.T) {
	var r adapteruse.Record
	often, lately, loaded := adapteruse.Key{Model: "m", Adapter: "often@1"},
		adapteruse.Key{Model: "m", Adapter: "lately@1"}, adapteruse.Key{Model: "m", Adapter: "loaded@1"}
	r.Loaded(loaded)
	for range 3 {
		r.Served(often, start)
	}
	later := start.Add(adapteruse.HalfLife)
	r.Served(lately, later)
	want := []adapteruse.Popular{{often, 1.5, start}, {lately, 1, later}}
	if got := r.Popular(9, later); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	r.Served(lately, later)
	want = []adapteruse.Popular{{lately, 2, later}}
	if got := r.Popular(1, later); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
