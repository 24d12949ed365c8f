package router

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"troupe/core/route"
)

// TestRecordChangesNoDecision checks that a machine that reports its decisions makes the same ones, and that what it
// reports leads to them.
func TestRecordChangesNoDecision(t *testing.T) {
	run := func(record bool) (effects []Effect) {
		m := New("n1", []Stored{{Name: "m", MaxWaiting: 1}})
		m.Record(record)
		do := func(e []Effect) { effects = append(effects, e...) }
		do(m.Start([]Member{{Name: "n1"}}, epoch))
		do(m.StoreRead([]string{"m"}, epoch))
		do(m.Route(Request{ID: "early", Model: "m", Prompt: make([]uint32, 20), Session: Actor{ID: "early"}}, epoch))
		do(m.Route(Request{ID: "no place", Model: "m", Session: Actor{ID: "no place"}}, epoch))
		for i, name := range []string{"m-0", "m-1"} {
			do(m.Reported(Report{Model: "m", Actor: Actor{ID: name}, Replica: route.Replica{Name: name,
				State: route.Serving, Running: i, MaxSequences: 4, StepTokens: 512, BlockTokens: 16}}, epoch))
		}
		for i := range 20 {
			id := fmt.Sprint(i)
			do(m.Route(Request{ID: id, Model: "m", Prompt: make([]uint32, 10*i), Session: Actor{ID: id}},
				epoch.Add(time.Duration(i))))
		}
		do(m.Route(Request{ID: "unknown", Model: "x", Session: Actor{ID: "unknown"}}, epoch))
		return effects
	}
	want, got := run(false), run(true)
	var reported []Decided
	answers := make(map[string]Answer)
	rest := slices.DeleteFunc(slices.Clone(got), func(e Effect) bool {
		d, is := e.(Decided)
		if is {
			reported = append(reported, d)
		} else if a, ok := e.(Answer); ok {
			answers[a.ID] = a
		}
		return is
	})
	if !reflect.DeepEqual(rest, want) {
		t.Errorf("got  %+v\nwant %+v", rest, want)
	}
	for _, d := range reported {
		a := answers[d.Request]
		if d.Choice != a.Routed.Replica || d.Refusal != a.Refusal ||
			d.Saw.Route(route.DefaultWeights).Name != d.Choice {
			t.Errorf("%+v, answer %+v", d, a)
		}
	}
	if len(reported) != 22 || reported[0].Request != "early" || reported[21].Choice != "" {
		t.Errorf("%d decisions are reported", len(reported))
	}
}
