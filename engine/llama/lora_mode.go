package llama

import (
	"fmt"

	"troupe/engine"
)

// LoRAMode is how a step computes what its adapters add to a projection. Every form gives the same bits. Replicas use Batched; the others
// are the references that it is compared with.
type LoRAMode int

// Forms.
const (
	Batched LoRAMode = iota // all rows at once, whatever adapters they have: one launch of each kernel
	Grouped                 // one matrix product for each adapter, where its sequences are side by side
	Naive                   // one for each sequence
)

func (f LoRAMode) String() string {
	if f < Batched || f > Naive {
		return fmt.Sprintf("form %d", int(f))
	}
	return [...]string{"batched", "grouped", "naive"}[f]
}

// run is neighbouring rows of a step whose adapters are applied in one launch.
type rowRun struct {
	from, n int
	only    *engine.Adapter // that of all these rows; nil where each row has its own
}

// runs divides a step's rows. Rows without an adapter are in none, but for Batched.
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
