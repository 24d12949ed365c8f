package simulate

import (
	"slices"
	"time"

	"troupe/core/migrate"
)

// MigrationUse is what became of the migrations of a model's sequences.
type MigrationUse struct {
	Migrations       int    `json:"migrations"`        // sequences that moved to another replica
	MigrationsFailed int    `json:"migrations_failed"` // attempts after which a sequence stayed
	MigrationBytes   uint64 `json:"migration_bytes"`   // sent, also by attempts that failed
	MigrationBlocks  int    `json:"migration_blocks"`  // KV blocks of the sequences that moved
	// MigrationReused are those of these blocks that were not sent, since the other replica had
	// them.
	MigrationReused int `json:"migration_blocks_reused"`
	// MigrationP50 and MigrationP99 are the times from the offer until the other replica had the
	// sequence. In the pause, which is a part of that, no replica computed it.
	MigrationP50      *float64 `json:"migration_p50_seconds"`
	MigrationP99      *float64 `json:"migration_p99_seconds"`
	MigrationPauseP50 *float64 `json:"migration_pause_p50_seconds"`
	MigrationPauseP99 *float64 `json:"migration_pause_p99_seconds"`
}

// migrations has what was counted of the migrations of a model's sequences.
type migrations struct {
	failed, blocks, reused int
	bytes                  uint64
	took, pauses           []time.Duration // of those that moved
}

func (c *migrations) add(r migrate.Report) {
	if c.bytes += r.Bytes; !r.Moved {
		c.failed++
		return
	}
	c.blocks, c.reused = c.blocks+r.Blocks, c.reused+r.Reused
	c.took, c.pauses = append(c.took, r.Elapsed), append(c.pauses, r.Pause)
}

func (c *migrations) use() MigrationUse {
	slices.Sort(c.took)
	slices.Sort(c.pauses)
	return MigrationUse{Migrations: len(c.took), MigrationsFailed: c.failed, MigrationBytes: c.bytes,
		MigrationBlocks: c.blocks, MigrationReused: c.reused,
		MigrationP50: quantile(c.took, 0.50), MigrationP99: quantile(c.took, 0.99),
		MigrationPauseP50: quantile(c.pauses, 0.50), MigrationPauseP99: quantile(c.pauses, 0.99)}
}

// any reports whether a sequence migrated, or an attempt failed.
func (u MigrationUse) any() bool { return u.Migrations+u.MigrationsFailed > 0 }
