package schedule

import (
	"cmp"
	"slices"
	"time"
)

const (
	// UseHalfLife is the time after which a request counts half in Adapter.Uses.
	UseHalfLife = 10 * time.Minute
	// MostAhead is the largest number of adapters that a replica fetches ahead at once.
	MostAhead = 16
	// leastUses is the number of uses below which an adapter is not popular: one request an hour ago.
	leastUses = 1.0 / 64
	// heldBonus is how many times as popular as an adapter on the device another one must be to take its place.
	// Without it, two adapters of about the same popularity would replace each other all the time.
	heldBonus = 2
)

// Adapter is an adapter of a model, and how popular it is in the cluster.
type Adapter struct {
	Key   string // "name@revision"
	Pages int    // of 2 MiB, on a device
	Uses  float64
	Last  time.Time // of the last request; zero: unknown
}

// AdapterPool is the memory for adapters of a replica that serves.
type AdapterPool struct {
	Replica string
	Pages   int // that it has; 0: unknown, so that no adapter is too much
	Held    []HeldAdapter
}

// HeldAdapter is an adapter on the device of a replica, or on its way there.
type HeldAdapter struct {
	Key   string
	InUse bool // by sequences, or pinned by an operator
}

// Fetch are the adapters that a replica fetches ahead.
type Fetch struct {
	Replica  string
	Adapters []Ahead // the most popular first
}

// Ahead is an adapter to be fetched ahead.
type Ahead struct {
	Key  string
	Uses float64 // the replica's share
}

// Prefetch returns the adapters that the replicas of a model fetch ahead: the most popular ones in the cluster
// for which a replica has pages, apart from those of adapters in use, and which are not there. An adapter on
// the device gives way only to one that is at least twice as popular.
func Prefetch(adapters []Adapter, pools []AdapterPool) (all []Fetch) {
	for _, p := range pools {
		if f := p.fetch(adapters); len(f) > 0 {
			slices.SortFunc(f, func(a, b Ahead) int {
				return cmp.Or(cmp.Compare(b.Uses, a.Uses), cmp.Compare(a.Key, b.Key))
			})
			for i := range f {
				f[i].Uses /= float64(len(pools))
			}
			all = append(all, Fetch{p.Replica, f})
		}
	}
	slices.SortFunc(all, func(a, b Fetch) int { return compareNames(a.Replica, b.Replica) })
	return all
}

// fetch returns the adapters that a replica lacks, of those that fit.
func (p AdapterPool) fetch(adapters []Adapter) (all []Ahead) {
	held := make(map[string]HeldAdapter, len(p.Held))
	for _, h := range p.Held {
		held[h.Key] = h
	}
	rank := func(a Adapter) float64 {
		if _, here := held[a.Key]; here {
			return heldBonus * a.Uses
		}
		return a.Uses
	}
	room := p.Pages
	var wanted []Adapter
	for _, a := range adapters {
		switch {
		case held[a.Key].InUse:
			room -= a.Pages
		case a.Uses >= leastUses:
			wanted = append(wanted, a)
		}
	}
	slices.SortFunc(wanted, func(a, b Adapter) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), b.Last.Compare(a.Last), cmp.Compare(a.Key, b.Key))
	})
	for _, a := range wanted {
		if p.Pages > 0 && a.Pages > room {
			continue
		}
		room -= a.Pages
		if _, here := held[a.Key]; !here {
			all = append(all, Ahead{a.Key, a.Uses})
		}
		if len(all) == MostAhead {
			break
		}
	}
	return all
}
