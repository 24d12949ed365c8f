package route

import (
	"fmt"
	"slices"
)

// View is all that Route knows of a model when it decides on a request: the request, and each replica as it was
// last reported, with what was routed there since. A View can be stored as JSON.
type View struct {
	Request  string   `json:"request"` // ID
	Tokens   int      `json:"tokens"`
	Avoid    []string `json:"avoid,omitempty"`
	Adapter  string   `json:"adapter,omitempty"`
	Revision string   `json:"revision,omitempty"`
	// MeanPrefill is the running mean of the prompt tokens that routed requests had to compute.
	MeanPrefill float64         `json:"mean_prefill"`
	Replicas    []ViewedReplica `json:"replicas"`
}

// ViewedReplica is a replica in a View.
type ViewedReplica struct {
	Name         string    `json:"name"`
	Node         string    `json:"node,omitempty"`
	State        State     `json:"state"`
	Faulty       bool      `json:"faulty,omitempty"`
	Running      int       `json:"running"`
	Waiting      int       `json:"waiting"`
	MaxSequences int       `json:"max_sequences"`
	StepTokens   int       `json:"step_tokens"`
	BlockTokens  int       `json:"block_tokens"`
	KVBlocks     int       `json:"kv_blocks"`
	KVBlocksFree int       `json:"kv_blocks_free"`
	Revision     string    `json:"revision,omitempty"`
	Adapter      Residence `json:"adapter,omitempty"`       // where it has the adapter of the request
	Routed       int       `json:"routed"`                  // requests sent there since its last report
	RoutedTokens int       `json:"routed_tokens"`           // prompt tokens that these requests compute
	Loading      bool      `json:"loading,omitempty"`       // one of them needs the same adapter
	Blocks       int       `json:"prefix_blocks,omitempty"` // leading blocks of the prompt that it has
}

// View returns what Route knows of a request.
func (t *Routes) View(r Request) View {
	t.exclude(r)
	t.index.match(r.Hashes, t.live, t.depth)
	v := View{Request: r.ID, Tokens: r.Tokens, Avoid: slices.Clone(r.Avoid), Adapter: r.Adapter, Revision: r.Revision,
		MeanPrefill: t.meanPrefill, Replicas: make([]ViewedReplica, 0, len(t.byName))}
	for i := range t.slots {
		if s := &t.slots[i]; s.used {
			v.Replicas = append(v.Replicas, ViewedReplica{
				Name: s.Name, Node: s.Node, State: s.State, Faulty: s.Faulty, Running: s.Running, Waiting: s.Waiting,
				MaxSequences: s.MaxSequences, StepTokens: s.StepTokens, BlockTokens: s.BlockTokens,
				KVBlocks: s.KVBlocks, KVBlocksFree: s.KVBlocksFree, Revision: s.Revision,
				Adapter: s.Adapters[r.Adapter], Routed: s.routed, RoutedTokens: s.routedTokens,
				Loading: r.Adapter != "" && slices.Contains(s.loading, r.Adapter), Blocks: t.depth[i],
			})
		}
	}
	return v
}

// Route decides on the request of a View again, under the given weights. With the weights of the Routes from
// which the view was taken, the decision is the same.
func (v View) Route(w Weights) Decision {
	t, most := NewRoutes(), 0
	t.weights, t.meanPrefill = w, v.MeanPrefill
	for _, r := range v.Replicas {
		most = max(most, r.Blocks)
	}
	hashes := make([]uint64, most)
	for i := range hashes {
		hashes[i] = uint64(i + 1) // a replica with n leading blocks has the first n of them
	}
	for _, r := range v.Replicas {
		t.Update(Replica{
			Name: r.Name, Node: r.Node, State: r.State, Faulty: r.Faulty, Running: r.Running, Waiting: r.Waiting,
			MaxSequences: r.MaxSequences, StepTokens: r.StepTokens, BlockTokens: r.BlockTokens, KVBlocks: r.KVBlocks,
			KVBlocksFree: r.KVBlocksFree, Revision: r.Revision, Adapters: map[string]Residence{v.Adapter: r.Adapter},
		})
		s := &t.slots[t.byName[r.Name]]
		s.routed, s.routedTokens = r.Routed, r.RoutedTokens
		if r.Loading {
			s.loading = []string{v.Adapter}
		}
		t.ResetBlocks(r.Name, hashes[:r.Blocks])
	}
	return t.Route(Request{ID: v.Request, Hashes: hashes, Tokens: v.Tokens, Avoid: v.Avoid, Adapter: v.Adapter,
		Revision: v.Revision})
}

// Check returns what is wrong with a View that was read from a file.
func (v View) Check() error {
	names := make(map[string]bool)
	for _, r := range v.Replicas {
		switch {
		case r.Name == "" || names[r.Name]:
			return fmt.Errorf("replica %q is without a name or twice", r.Name)
		case min(r.Running, r.Waiting, r.MaxSequences, r.StepTokens, r.BlockTokens, r.KVBlocks, r.KVBlocksFree,
			r.Routed, r.RoutedTokens, r.Blocks) < 0 || r.Blocks > 1<<20:
			return fmt.Errorf("replica %s has a number that cannot be", r.Name)
		}
		names[r.Name] = true
	}
	if v.Tokens < 0 || !(v.MeanPrefill >= 0) {
		return fmt.Errorf("the request has a negative number of tokens")
	}
	return nil
}

var stateNames = [...]string{"loading", "serving", "suspended", "draining", "failed"}

func (s State) String() string { return stateNames[s] }

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *State) UnmarshalText(text []byte) error {
	at := slices.Index(stateNames[:], string(text))
	if at < 0 {
		return fmt.Errorf("state %q does not exist", text)
	}
	*s = State(at)
	return nil
}

var residenceNames = [...]string{"disk", "dram", "gpu", "none"}

// MarshalText implements encoding.TextMarshaler.
func (r Residence) MarshalText() ([]byte, error) { return []byte(residenceNames[r]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Residence) UnmarshalText(text []byte) error {
	at := slices.Index(residenceNames[:], string(text))
	if at < 0 {
		return fmt.Errorf("an adapter cannot be in %q", text)
	}
	*r = Residence(at)
	return nil
}
