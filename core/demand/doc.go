// Package demand measures what requests ask of a model, and how well they are served: arrivals,
// refusals, time to the first token (TTFT), time per output token (TPOT), and the lengths of prompts
// and outputs.
//
// A Window holds what one gateway saw within the last Length, in slots of Length / Slots that are
// forgotten one by one. Figures are its content at a time. Those of several gateways are merged, so
// that every router, and the leader of the planner, knows those of the whole cluster.
//
// A sequence is one choice of a request; n choices are n sequences.
//
//   - An arrival is a sequence that was submitted to a router.
//   - TTFT is the time from the request to the first token of its first choice, in seconds.
//   - TPOT is the time from the first to the last token of a sequence, divided by the number of tokens
//     after the first one, in seconds. Sequences of one token have none.
//   - The rate is arrivals / observed time. The observed time is shorter than Length after a start.
//
// What was not observed is unknown, which is not zero: a Sketch without values has no quantiles, and
// Figures without observed time have no rate.
//
// A quantile is that of the nearest rank: the P99 of fewer than 100 values is the greatest one. Quantiles have a
// relative error of at most 1 % (Accuracy). Sketches are DDSketches (Masson, Rim and Lee,
// "DDSketch: A Fast and Fully-Mergeable Quantile Sketch with Relative-Error Guarantees", VLDB 2019). A
// quantile of merged sketches has the same error as one of a single sketch with all the values.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - counted: the figures count exactly the events of the slots that have not been forgotten
//   - merged: merged figures are those of a single window that saw the events of all
//   - accurate: a quantile differs from that of the values by at most Accuracy of it
//   - encoded: decoding an encoded sketch gives the same quantiles
//   - forgotten: a window without events for Length + a slot is empty
package demand
