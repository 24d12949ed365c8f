// Command kvreplay replays a trace of prompts through the eviction policies of core/kv, and writes docs/benchmarks-kv.md and its plot.
//
// The trace is of a chat service: the prompts of half an hour as the hashes of their blocks (Mooncake, FAST 2025). No engine runs; what is
// counted are the leading blocks of each prompt that a tier of a given number of slots still holds. The optimum is Belady's: it knows the future,
// and keeps what is wanted soonest. Then each conversation is one of two models', whose blocks are of two sizes, and share the tier.
package main
