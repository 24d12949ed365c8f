// Package workload reads and generates requests: when they arrive, for which model and adapter, and how
// long their prompts and outputs are. A request has no text.
//
// A Source is a stream of requests in order of arrival. It can be read any number of times, and gives
// the same requests each time, unless it reads from an io.Reader. Readers keep one line in memory.
//
//   - Open reads a file in one of the formats below, also compressed by gzip.
//   - ReadMooncake, ReadAzure, ReadAdapters and ReadImages read one format.
//   - ReadServeGen reads rates and lengths of clients, from which it generates requests.
//   - Load generates requests from a description; Presets has loads with the statistics of traces.
//   - Merge, Scale and Cut combine and change sources; Measure returns the statistics of one.
//
// # Formats
//
//	Mooncake  JSON lines: timestamp in ms, input_length, output_length, hash_ids with one ID for 512 tokens
//	Azure     CSV: TIMESTAMP, ContextTokens, GeneratedTokens
//	adapters  CSV: arrival_s, adapter, prompt_len, output_len
//	images    CSV: gmt_create, checkpoint_model_version_id, prompt_length, num_inference_steps,
//	          num_images_per_prompt
//	ServeGen  CSV: client, t_s, rate, dist, shape; and JSON with 101 quantiles of lengths
//
// Columns may be in any order, and others are ignored.
//
// # Generated requests
//
// All randomness comes from a seed, so the same seed gives the same requests. A Load draws the gaps
// between arrivals from a gamma distribution with a given coefficient of variation (CV: standard
// deviation over mean); with a CV of 1 that is a Poisson process. A diurnal rate and spikes stretch and
// shrink the gaps, so that the expected number of arrivals in any time is the integral of the rate.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - ordered: a source is in order of arrival, and begins at 0 or later
//   - repeated: the same seed gives the same requests
//   - merged: a merge has all requests of its sources, and those of a source in their order
//   - cut: the parts of a source, moved back to their place, are the source
//   - prefixes: if the first n hashes of two prompts are equal, so are all hashes before
package workload
