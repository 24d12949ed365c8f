package llama

import (
	"fmt"

	"troupe/engine"
)

// LoRAMode is how a step computes the adapters' contribution to a projection. All modes give the
// same bits. Replicas use Batched. The other modes are references for tests and benchmarks.
type LoRAMode int

// The modes.
const (
	Batched LoRAMode = iota // all rows at once, with any adapters: one launch of each kernel
	Grouped                 // one launch of each kernel per run of sequences with the same adapter
	Naive                   // one launch of each kernel per sequence
)

func (f LoRAMode) String() string {
	if f < Batched || f > Naive {
		return fmt.Sprintf("form %d", int(f))
	}
	return [...]string{"batched", "grouped", "naive"}[f]
}

// rowRun is a run of adjacent rows whose adapters are applied in one launch.
type rowRun struct {
	from, n int
	only    *engine.Adapter // the adapter of all these rows; nil: each row has its own
}

// rowRuns divides a step's rows into runs. Except with Batched, the runs omit rows without an
// adapter.
func (f LoRAMode) rowRuns(batch []engine.Sequence, rows int) (all []rowRun) {
	if f == Batched {
		return []rowRun{{n: rows}}
	}
	from := 0
	for i, s := range batch {
		n := len(s.Tokens)
		switch {
		case s.Adapter == nil:
		case f == Grouped && i > 0 && batch[i-1].Adapter == s.Adapter:
			all[len(all)-1].n += n
		default:
			all = append(all, rowRun{from, n, s.Adapter})
		}
		from += n
	}
	return all
}
