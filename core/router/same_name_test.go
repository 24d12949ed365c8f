package router

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/route"
)

// TestSameName checks what routers know of a replica whose name was used again on another node, while the
// first one was away: once one of the two has ended, each router knows the blocks of the other one.
func TestSameName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newNamesakes()
		node := rapid.SampledFrom([]string{"a", "b"})
		t.Repeat(map[string]func(*rapid.T){
			"report": func(t *rapid.T) {
				state := rapid.SampledFrom([]route.State{route.Loading, route.Serving, route.Draining}).Draw(t, "state")
				w.report(node.Draw(t, "node"), state, rapid.Uint64Range(1, 9).Draw(t, "block"))
			},
			"end":  func(t *rapid.T) { w.end(node.Draw(t, "node")) },
			"tick": func(t *rapid.T) { w.tick(rapid.SampledFrom(sorted(w.routers)).Draw(t, "node")) },
		})
		rest, ended := "a", "b"
		if rapid.Bool().Draw(t, "b rests") {
			rest, ended = "b", "a"
		}
		w.end(ended)
		for block := range uint64(3) {
			w.report(rest, route.Serving, 10+block)
			for _, name := range sorted(w.routers) {
				w.tick(name)
			}
		}
		want := slices.Sorted(maps.Keys(w.blocks[rest]))
		for name, m := range w.routers {
			got := slices.Sorted(slices.Values(m.models["m"].routes.BlocksOf("m-0")))
			if on := m.models["m"].replicas["m-0"].node; on != rest || !slices.Equal(got, want) {
				t.Errorf("the router of %s has m-0 on %q with the blocks %v, want %q and %v", name, on, got, rest, want)
			}
		}
	})
}

// namesakes are three routers, and up to two replicas of the name m-0, on the nodes a and b.
type namesakes struct {
	routers map[string]*Machine
	shared  map[string][]Report // since the last announcement, by node
	blocks  map[string]map[uint64]bool
	now     time.Time
}

func newNamesakes() *namesakes {
	w := &namesakes{routers: map[string]*Machine{}, shared: map[string][]Report{},
		blocks: map[string]map[uint64]bool{}, now: epoch}
	var all []Member
	for _, name := range []string{"a", "b", "c"} {
		w.routers[name] = New(name, nil)
		all = append(all, Member{Name: name, ID: "1", Router: routerOf(name)})
	}
	for _, m := range w.routers {
		m.Start(all, w.now)
	}
	for name := range w.routers {
		for peer := range w.routers {
			if peer != name {
				w.snapshot(peer, name)
			}
		}
	}
	return w
}

// tick lets half a second pass, so that a peer may be asked again.
func (w *namesakes) tick(node string) {
	w.now = w.now.Add(snapshotRetryInterval)
	w.perform(node, nil, w.routers[node].Tick(w.now))
}

// report reports a new block of a replica, which begins with its first report.
func (w *namesakes) report(node string, state route.State, block uint64) {
	begins := w.blocks[node] == nil
	if begins {
		w.blocks[node] = map[uint64]bool{}
	}
	w.blocks[node][block] = true
	w.send(node, Report{Replica: route.Replica{State: state}, Snapshot: begins, Committed: []uint64{block}})
}

func (w *namesakes) send(node string, r Report) {
	r.Model, r.Name, r.Actor, r.BlockTokens = "m", "m-0", Actor{node, "m-0"}, 1
	w.perform(node, []Report{r}, w.routers[node].Reported(r, w.now))
}

func (w *namesakes) end(node string) {
	w.blocks[node] = nil
	w.perform(node, nil, w.routers[node].Lost(Actor{node, "m-0"}, w.now))
}

// perform carries out the effects of a report or of another event. Messages arrive at once.
func (w *namesakes) perform(node string, of []Report, effects []Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case Share:
			w.shared[node] = append(w.shared[node], of...)
		case Announce:
			a := Announcement{Node: node, Incarnation: 1, Sequence: e.Sequence, Gone: e.Gone, Replicas: w.shared[node]}
			w.shared[node] = nil
			for _, to := range e.To {
				w.perform(to.Address, nil, w.routers[to.Address].Announced(a, w.now))
			}
		case AskSnapshot:
			w.snapshot(e.Peer.Address, node)
		case AskBlocks:
			w.send(node, Report{Replica: route.Replica{State: route.Serving}, Snapshot: true,
				Committed: sortedBlocks(w.blocks[node])})
		}
	}
}

func (w *namesakes) snapshot(of, to string) {
	s := w.routers[of].Snapshot()
	a := Announcement{Node: of, Incarnation: 1, Sequence: s.Sequence, Snapshot: true}
	for _, b := range s.Replicas {
		a.Replicas = append(a.Replicas, Report{
			Replica: route.Replica{Name: b.Name, State: route.Serving, BlockTokens: 1}, Model: b.Model,
			Actor: Actor{of, b.Name}, Snapshot: true, Committed: b.Blocks,
		})
	}
	w.perform(to, nil, w.routers[to].Announced(a, w.now))
}
