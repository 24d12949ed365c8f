package stored

import (
	"context"

	"troupe/cluster/store"
)

// AdapterStore is the part of the store that holds adapters.
type AdapterStore interface {
	WatchAdapters(ctx context.Context, apply func(store.AdapterChange)) error
}

// Adapters returns a watch that applies the stored adapters to a catalogue. The catalogue itself
// records when it is complete.
func Adapters(from AdapterStore, apply func(store.AdapterChange)) Watch {
	return Watch{Of: "adapters", Run: func(ctx context.Context, _ func()) error {
		return from.WatchAdapters(ctx, apply)
	}}
}
