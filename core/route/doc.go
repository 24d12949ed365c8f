// Package route chooses the replica for a request by load, cached prefix and adapter, and explains
// the choice.
//
// A request goes to the replica that computes the fewest tokens before the request's first output
// token. The cost of a replica is
//
//	queue = waiting·typical + routed + prompt − cached
//	cost  = queue + decoding·⌈queue / (step − running)⌉ + 256·overflow + short + fetch
//
// where
//
//   - cached is the number of prompt tokens that the replica holds, in full blocks from the start
//     and without the last token
//   - waiting sequences each count as typical, the running mean of the tokens that routed requests
//     had to compute
//   - routed is exact: the tokens of requests sent since the replica's last report
//   - decoding is the number of sequences that decode meanwhile; each computes one token per step
//   - step is the token budget of a step, of which each running sequence uses one token
//   - overflow is the number of sequences beyond max_sequences. Each costs an output, assumed to
//     have 256 tokens: of M sequences with L tokens, one ends every L/M steps of M tokens
//   - short is the part of the queue that the free KV blocks cannot hold, so that a sequence would
//     be preempted
//   - fetch is the cost of loading the request's adapter to the device, in tokens that could be
//     computed meanwhile: 0 if it is there, 64 from host memory, 512 from disk. Requests for an
//     adapter therefore go where it is loaded, until another replica becomes cheaper and the
//     adapter spreads
//
// This is the cost of NVIDIA Dynamo's KV router (assigned prefill work that is not cached, plus
// active decode work, lowest first, https://docs.nvidia.com/dynamo, "Routing Concepts"), with
// decode work weighed by the steps that it delays. llm-d adds up the same three terms with weights:
// prefix, queue, KV use.
//
// A popular prefix must not send all requests to one replica. SGLang's router ignores the cache if
// the loads differ too much. Likewise, a replica gets no more requests if it has more sequences
// than 1.5 times the mean plus an eighth of its places, unless no other replica serves.
//
// Invariants, checked against a naive table with full scans:
//
//   - cheapest: no eligible replica costs less than the chosen one
//   - share: the chosen replica has no more than its share
//   - serving: a replica that does not serve is never chosen, and one in Avoid only if no other
//     serves
//   - counted: a routed request counts until the replica's next report
//   - guess: a wrong announcement of a block leads to a worse choice and nothing else
package route
