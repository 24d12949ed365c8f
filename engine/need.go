package engine

import (
	"troupe/core/hbm"
	"troupe/core/units"
)

// KVSize is what the KV blocks of a model depend on when it is loaded.
func (f Facts) KVSize(s LoadSpec) units.KVSize {
	return units.KVSize{
		BlockTokens: s.BlockTokens, ContextTokens: f.ContextTokens, MaxSequences: s.Limits.MaxSequences, Requested: s.AskedBlocks,
	}
}

// Need is what a model needs of a device.
func (f Facts) Need(s LoadSpec) hbm.Need {
	size, block := f.KVSize(s), f.KVTokenBytes*int64(s.BlockTokens)
	return hbm.Need{
		Fixed:    wholePages(f.WeightBytes) + wholePages(f.WorkspaceBytes(s.Limits)) + int64(s.AdapterPages)*hbm.PageBytes,
		Min:      wholePages(int64(size.Min()) * block),
		MinAlone: wholePages(int64(size.MinAlone()) * block),
		Max:      wholePages(int64(size.Max()) * block),
	}
}

func wholePages(bytes int64) int64 { return int64(hbm.PagesOf(bytes)) * hbm.PageBytes }

// LoadSpec is what to put on a device.
type LoadSpec struct {
	Lease       string
	Path        string
	BlockTokens int
	KVBlocks    int
	AskedBlocks int // KVBlocks, where the operator asked for so many; 0: as memory allows
	Limits      Limits
	// AdapterPages of 2 MiB are for adapters; 0: none until LeaseAdapters.
	AdapterPages int
	// Revision is the digest that the files must have; empty: they may have any.
	Revision string
	// Deploy is which models.deploy asked for it.
	Deploy uint64
}
