package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
)

// Names are models or adapters, the most popular first.
type Names struct {
	List  []string
	Name  string  // without List, they are called Name-0000, Name-0001 …
	Count int     // likewise, and this many
	Zipf  float64 // exponent: the share of the i-th one is proportional to i^-Zipf; 0: equal shares
}

// Len returns the number of names.
func (n Names) Len() int { return max(len(n.List), n.Count) }

// At returns a name by its popularity, from 0.
func (n Names) At(i int) string {
	if len(n.List) > 0 {
		return n.List[i]
	}
	return fmt.Sprintf("%s-%04d", n.Name, i)
}

// minRejection is the least exponent for which rand.Zipf is used, which needs no table. Near 1, it loses all
// precision.
const minRejection = 1.05

// sampler returns a function that draws a name.
func (n Names) sampler(r *rand.Rand) func() string {
	count := n.Len()
	switch {
	case count == 0:
		return func() string { return "" }
	case count == 1:
		return func() string { return n.At(0) }
	case n.Zipf >= minRejection:
		zipf := rand.NewZipf(r, n.Zipf, 1, uint64(count-1))
		return func() string { return n.At(int(zipf.Uint64())) }
	}
	sums := make([]float64, count)
	var sum float64
	for i := range sums {
		sum += math.Pow(float64(i+1), -n.Zipf)
		sums[i] = sum
	}
	return func() string { return n.At(min(count-1, sort.SearchFloat64s(sums, r.Float64()*sum))) }
}
