// Command kvreplay replays a trace of prompts through the eviction policies of core/kv and writes
// docs/benchmarks-kv.md and its plot.
//
// The trace is of a chat service: the prompts of half an hour as hashes of their blocks (Mooncake,
// FAST 2025). No engine runs. The hit rate counts the leading blocks of each prompt that a tier
// with a given number of slots still holds. The optimum is Belady's, which knows the future and
// keeps the blocks needed soonest. In a second part, each conversation belongs to one of two
// models, whose blocks have different sizes and share the tier.
package main
