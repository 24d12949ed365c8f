package tiers

import "troupe/core/kv"

// Config configures the KV tiers below HBM. The zero value means that there are none.
type Config struct {
	DRAMBytes int64  // size in page-locked host memory
	NVMeBytes int64  // size of the file at NVMePath; its blocks survive restarts
	NVMePath  string // on a local disk
	// Watermark is the share of HBM, and of each tier, above which blocks are demoted ahead of
	// need; default kv.DefaultWatermark.
	Watermark float64
	Policy    string // eviction policy of the tiers, one of kv.PolicyNames; default kv.DefaultPolicy
	// DRAMOptional allows the node to start without the DRAM tier, with a warning, if the memory
	// cannot be allocated.
	DRAMOptional bool
	// Restore decides between restoring blocks and recomputing them; default kv.RestoreAuto.
	Restore kv.RestorePolicy
	// PartBytes is the minimum size of the parts in which a block is restored. Prefill can start
	// once the first parts have arrived. Default 256 KiB.
	PartBytes int
	// RemoteBytes limits the bytes of blocks in flight from other nodes; default
	// kvblock.DefaultRemoteBytes.
	RemoteBytes int64
	// LocalOnly disables the exchange of blocks with other replicas and nodes.
	LocalOnly bool
}
