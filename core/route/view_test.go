package route

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestViewDecidesTheSame checks that a view, also one that was stored as JSON, leads to the decision that the table
// makes, and that other weights do not always do.
func TestViewDecidesTheSame(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	other, changed := DefaultWeights, 0
	other.DefaultTokens *= 8
	for range 200 {
		routes, requests := randomTable(rnd)
		for i, r := range requests {
			v := routes.View(r)
			want := routes.Route(r)
			if got := v.Route(DefaultWeights); !reflect.DeepEqual(got, want) {
				t.Fatalf("request %d: got %+v\nwant %+v\nview %+v", i, got, want, v)
			}
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			var read View
			if err := json.Unmarshal(text, &read); err != nil {
				t.Fatal(err)
			}
			if err := read.Check(); err != nil || !reflect.DeepEqual(read.Route(DefaultWeights), want) {
				t.Fatalf("the stored view decides otherwise: %v: %s", err, text)
			}
			if v.Route(other).Name != want.Name {
				changed++
			}
		}
	}
	if changed == 0 {
		t.Error("other weights change no decision")
	}
}

// randomTable returns a table with replicas in all states, and requests for it.
func randomTable(rnd *rand.Rand) (*Routes, []Request) {
	routes, hashes := NewRoutes(), []uint64{11, 12, 13, 14, 15, 16, 17, 18}
	for i := range 1 + rnd.IntN(20) {
		r := serving(fmt.Sprintf("m-%d", i))
		r.Node, r.Running, r.Waiting = fmt.Sprintf("n%d", i%3), rnd.IntN(40), rnd.IntN(10)
		r.KVBlocks, r.KVBlocksFree, r.MaxSequences = 100, rnd.IntN(100), 16
		r.Revision = []string{"", "x", "y"}[rnd.IntN(3)]
		r.Adapters = map[string]Residence{"a@1": Residence(rnd.IntN(3)), "b@2": Residence(rnd.IntN(3))}
		if rnd.IntN(4) == 0 {
			r.State, r.Faulty = State(rnd.IntN(5)), rnd.IntN(4) == 0
		}
		routes.Update(r)
		routes.UpdateBlocks(r.Name, nil, hashes[:rnd.IntN(len(hashes)+1)])
	}
	routes.Remove("m-3")
	var requests []Request
	for i := range 8 {
		r := Request{ID: fmt.Sprintf("r%d", i), Tokens: 16*8 + rnd.IntN(400), Hashes: hashes[:rnd.IntN(9)],
			Adapter: []string{"", "", "a@1", "b@2", "c@3"}[rnd.IntN(5)]}
		if rnd.IntN(3) == 0 {
			r.Avoid = []string{"m-0", "m-2"}
		}
		if rnd.IntN(4) == 0 {
			r.Revision = "x"
		}
		requests = append(requests, r)
	}
	return routes, requests
}

// TestViewsAreChecked checks that impossible values of a stored view are refused.
func TestViewsAreChecked(t *testing.T) {
	good := View{Replicas: []ViewedReplica{{Name: "m-0"}, {Name: "m-1"}}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, wrong := range []View{
		{Tokens: -1}, {MeanPrefill: -1}, {Replicas: []ViewedReplica{{}}},
		{Replicas: []ViewedReplica{{Name: "a"}, {Name: "a"}}}, {Replicas: []ViewedReplica{{Name: "a", Blocks: -1}}},
	} {
		if wrong.Check() == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
	var v View
	for _, text := range []string{`{"replicas": [{"state": "asleep"}]}`, `{"replicas": [{"adapter": "tape"}]}`} {
		if json.Unmarshal([]byte(text), &v) == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}
