package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"troupe/core/spec"
)

// GPU is a candidate for a replica.
type GPU struct {
	Name     string
	Free     int64 // bytes not leased
	Draining bool
	Avoid    bool // it refused this replica lately
	Siblings int  // replicas of the same model on it
}

// Place chooses the GPU for a replica that needs so many bytes: fewest siblings, then most free memory, then by name.
// Where none will do, ok is false and why counts the reasons: "2 of 3 short of memory by 1.2 GiB or more; 1 draining".
func Place(need int64, gpus []GPU) (name, why string, ok bool) {
	var fit []GPU
	var draining, avoided, short int
	leastShort := int64(-1)
	for _, g := range gpus {
		switch {
		case g.Draining:
			draining++
		case g.Avoid:
			avoided++
		case g.Free < need:
			short++
			if by := need - g.Free; leastShort < 0 || by < leastShort {
				leastShort = by
			}
		default:
			fit = append(fit, g)
		}
	}
	if len(fit) == 0 {
		return "", explain(len(gpus), short, leastShort, draining, avoided), false
	}
	best := slices.MinFunc(fit, func(a, b GPU) int {
		return cmp.Or(cmp.Compare(a.Siblings, b.Siblings), cmp.Compare(b.Free, a.Free), cmp.Compare(a.Name, b.Name))
	})
	return best.Name, fmt.Sprintf("%s has %s free, of %d of %d with room", best.Name, spec.FormatBytes(best.Free), len(fit), len(gpus)), true
}

func explain(all, short int, by int64, draining, avoided int) string {
	if all == 0 {
		return "no GPU"
	}
	var parts []string
	if short > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d short of memory by %s or more", short, all, spec.FormatBytes(by)))
	}
	if draining > 0 {
		parts = append(parts, fmt.Sprintf("%d draining", draining))
	}
	if avoided > 0 {
		parts = append(parts, fmt.Sprintf("%d refused it lately", avoided))
	}
	return strings.Join(parts, "; ")
}
