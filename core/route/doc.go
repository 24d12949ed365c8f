// Package route chooses a replica for a request, by load and by what is cached of its prefix, and explains the choice.
//
// A request goes where the fewest tokens are computed before its first one. For a replica this is
//
//	queue = waiting·typical + routed + prompt − cached
//	cost  = queue + decoding·⌈queue / (step − running)⌉ + 256·overflow + short + fetch
//
// cached is how much of the prompt the replica holds, in full blocks from the start and never the last token. waiting
// sequences count as typical, the running mean of what routed requests had to compute; routed is exact, for those sent since
// the replica last reported. Every step on the way also computes one token for each sequence that decodes. A place
// beyond max_sequences costs an output: of M sequences of L tokens one ends every L/M steps, of M tokens each; L is taken
// for 256. short is what the free KV blocks cannot hold of the queue, and somebody has to be preempted for.
//
// fetch is what it takes until the request's adapter is on the device, in tokens that could be computed meanwhile: nothing where it is, 64 from host
// memory, 512 from disk. So an adapter's requests go where it is, and one that is asked for more than its holder can take costs less elsewhere, and
// spreads.
//
// This is the cost of NVIDIA Dynamo's KV router (prefill work that is assigned and not cached, plus active decode work,
// lowest first, https://docs.nvidia.com/dynamo, "Routing Concepts"), with decode work weighed by the steps that it delays. llm-d
// adds up the same three with weights: prefix, queue, KV use.
//
// A hot prefix must not pile everything on one replica. As SGLang's router leaves the cache aside where loads differ too
// much, a replica with more sequences than 1.5 times the mean and an eighth of its places gets no more while
// others serve.
//
// Invariants, checked against a naive table with full scans:
//
//   - cheapest: no replica that may be chosen costs less than the chosen one
//   - share: the chosen one has no more than its share
//   - serving: a replica that does not serve is never chosen; one to be avoided only where no other serves
//   - counted: what was routed counts until the replica's next report
//   - guess: whatever is announced, a wrong block costs a worse choice and nothing else
package route
