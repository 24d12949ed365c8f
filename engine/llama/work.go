package llama

import (
	"troupe/core/lora"
	"troupe/core/utilization"
	"troupe/engine"
)

// unitWork is the work of a step by its parts: see doc.go.
type unitWork struct {
	layers     float64 // elements of the projections of all layers
	head       float64 // elements of the output head
	hidden     float64 // elements of a row of the embedding
	attention  float64 // FLOPs for each pair of a query and a key, in all layers
	kvToken    float64 // bytes of the keys and values of a token
	weight     float64 // bytes of an element of a matrix
	windowSize int     // of attention; 0: none
}

func (w *Weights) unitWork() unitWork {
	u := unitWork{
		head: float64(w.Vocab) * float64(w.Hidden), hidden: float64(w.Hidden),
		attention: 4 * float64(w.Heads) * float64(w.HeadDim) * float64(w.Layers),
		kvToken:   float64(w.KVTokenBytes()), weight: float64(w.dtype.Bytes()), windowSize: w.Window,
	}
	for t := range lora.Targets {
		s := w.projection(t)
		u.layers += float64(w.Layers) * float64(s.In) * float64(s.Out)
	}
	return u
}

// Work implements engine.WorkCounter.
func (e *llamaEngine) Work(batch []engine.Sequence) (w utilization.Work) {
	u := &e.work
	rows, samples := 0, 0
	for i := range batch {
		s := &batch[i]
		n := len(s.Tokens)
		rows += n
		if s.Sample {
			samples++
		}
		keys, read := u.context(s.Position, n)
		w.FLOPs += u.attention * keys
		w.Bytes += u.kvToken * float64(read+n)
		if s.Adapter != nil {
			size := float64(s.Adapter.Layout.Bytes())
			w.FLOPs += 2 * float64(n) * size / u.weight
			if i == 0 || batch[i-1].Adapter != s.Adapter {
				w.Bytes += size
			}
		}
	}
	w.FLOPs += 2 * (float64(rows)*u.layers + float64(samples)*u.head)
	w.Bytes += u.weight * (u.layers + float64(rows)*u.hidden)
	if samples > 0 {
		w.Bytes += u.weight * u.head
	}
	return w
}

// context returns the number of pairs of a query and a key for n tokens from a position, and the number of tokens whose
// keys and values they read.
func (u *unitWork) context(position, n int) (pairs float64, read int) {
	end := position + n
	if u.windowSize == 0 || end <= u.windowSize {
		return float64(n) * float64(position+1+end) / 2, end
	}
	full := min(n, end-u.windowSize) // tokens that attend to a whole window
	growing := n - full
	pairs = float64(full)*float64(u.windowSize) + float64(growing)*float64(2*position+growing+1)/2
	return pairs, end - max(0, position+1-u.windowSize)
}
