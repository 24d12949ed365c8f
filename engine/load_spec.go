package engine

import (
	"troupe/core/hbm"
	"troupe/core/units"
)

// KVSize returns the inputs that determine a model's number of KV blocks.
func (m ModelInfo) KVSize(s LoadSpec) units.KVSize {
	return units.KVSize{
		BlockTokens: s.BlockTokens, ContextTokens: m.ContextTokens, MaxSequences: s.Limits.MaxSequences,
		Requested: s.RequestedBlocks,
	}
}

// Need returns the device memory that a model needs.
func (m ModelInfo) Need(s LoadSpec) hbm.Need {
	size, block := m.KVSize(s), m.KVTokenBytes*int64(s.BlockTokens)
	return hbm.Need{
		Fixed: roundToPages(m.WeightBytes) + roundToPages(m.WorkspaceBytes(s.Limits)) +
			roundToPages(m.GraphMemory(s.Limits)) + int64(s.AdapterPages)*hbm.PageBytes,
		Min:      roundToPages(int64(size.Min()) * block),
		MinAlone: roundToPages(int64(size.MinAlone()) * block),
		Max:      roundToPages(int64(size.Max()) * block),
	}
}

func roundToPages(bytes int64) int64 { return int64(hbm.PagesOf(bytes)) * hbm.PageBytes }

// LoadSpec describes a model to be loaded.
type LoadSpec struct {
	Lease           string
	Path            string
	BlockTokens     int
	KVBlocks        int
	RequestedBlocks int // KVBlocks if the operator set it; 0: as memory allows
	Limits          Limits
	// AdapterPages is the number of 2 MiB pages for adapters; 0: none until LeaseAdapters.
	AdapterPages int
	// Revision is the digest that the files must have; empty: any.
	Revision string
	// Owner is the actor that alone gets the handle of the lease.
	Owner string
	// Deploy is the number of the models.deploy command.
	Deploy uint64
}
