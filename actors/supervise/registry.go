package supervise

import cmap "github.com/orcaman/concurrent-map"

// Protoactor keeps the names of a system's actors in 1,024 maps of 32 shards each. Names of
// sessions are never reused. In the course of 100,000 requests each of the 32,768 shards is
// therefore filled once and keeps its 300 bytes: 10 MB per system. One shard per map is enough.
func init() { cmap.SHARD_COUNT = 1 }
