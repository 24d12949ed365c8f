// Package cost predicts how long steps of an engine, copies of bytes, loads of weights and switches
// take, from measurements of a device or from the published facts of one.
//
// A Profile has the costs of a model on a kind of device, the residuals of each fit, and the origin
// of each figure: a measurement on this machine, or a public source. "troupe calibrate" measures
// profiles. Profiles of devices that were not measured have facts only, and Device.Predict computes
// the costs of a model from them.
//
// # Steps
//
// A Step has P prompt tokens, D sequences that decode one token each, and reads C tokens of KV that
// earlier steps computed. AddPrompt and AddDecode count them. The terms of Steps have a physical
// meaning, and none is negative:
//
//	fixed     of each step: launches, copies of inputs and results
//	compute   P · prompt token + D · decode sequence + A · prompt pair
//	memory    weights + C · context token
//
// A is the number of pairs of a prompt token and a token that it attends to. A step does not say which
// part of C belongs to its prompt. All prompt tokens count as those of one sequence. If no sequence
// decodes, C is its context. Otherwise it has half of the mean context, as a prompt of the same length
// has when half of it is computed:
//
//	A = P · (P/2 + C)            if D = 0
//	A = P · (P/2 + C/(D+1)/2)    if D > 0
//
// There are two forms. In Sum, a step takes the sum of all terms, and weights are part of the fixed
// one. In Max, the roofline of Williams, Waterman and Patterson (doi.org/10.1145/1498765.1498785), it
// takes the fixed term and the larger of compute and memory, which overlap.
//
// # Fitting
//
// Fit minimizes the sum of squared relative errors under the condition that no term is negative. Since
// there are at most six terms, it solves the normal equations of each subset of terms, and takes the
// best solution without a negative term: the optimum of the constrained problem is the optimum of the
// terms that are not zero in it. In Max, measurements are first divided into those bound by compute and
// those bound by memory, and the division and the fit are repeated until neither changes.
//
// Residuals are relative errors of measurements that the fit did not see: each fifth of the measurements
// is predicted by a fit of the other four. Fit takes the form with the smaller mean residual.
//
// # Roofline by facts
//
// Device.Predict computes the terms of Max for a dense decoder of the Llama family. Per step and device,
// with L layers, hidden size h, H heads of dimension d, vocabulary V, N weights in all matrices of the
// layers, b bytes per element, and n devices of a tensor-parallel group:
//
//	FLOPs of a prompt token     2 · N / n
//	FLOPs of a decoded token    2 · (N + V·h) / n
//	FLOPs of a prompt pair      4 · L · H · d / n
//	bytes of the weights        b · (N + V·h) / n
//	bytes of a context token    KVTokenBytes / n
//	bytes sent per token        2 · L · 2·(n-1)/n · b · h, two ring all-reduces a layer
//
// Each weight takes one multiplication and one addition per token, and a pair takes 2·d of each per
// head: one product with a key and one with a value (Kaplan et al., arxiv.org/abs/2001.08361, table 1;
// Pope et al., arxiv.org/abs/2211.05102, section 2). Times are FLOPs over the dense peak, bytes over the
// memory bandwidth, and bytes sent over the bandwidth of NVLink in one direction. They are lower bounds:
// launches, and kernels that do not reach the peak, are not in the facts. An Efficiency accounts for
// them.
//
// # Capacity
//
// Capacities are the rates of requests that replicas serve together within their SLO, for given lengths of prompts and
// outputs. These are lognormal, with the mean and the P99 of the recent ones. Let r sequences decode on each of n
// replicas in the mean. A step is that of 1 + r sequences, since each one sees itself and the others, and a sequence
// has half of its output in the mean, weighted by its length. A prompt is computed in steps of at most StepTokens,
// beside the other sequences: in F in all, which is e longer than as many steps without it. For each sequence that
// ends, there is one prompt, so that from token to token, it takes on average
//
//	T = step + e · r / output
//	rate = r / (output · T)
//
// per replica. With prompts, the replicas have A = n · (r + rate · F) sequences in c = n · places. Places also need
// prompt + output tokens of KV cache. The capacity is the highest rate at which
//
//	A < c
//	T ≤ TPOT with the P99 of the sequences of a replica of the pool, r + 2.33·√(r / n)
//	first token after TTFT for at most 1 % of the requests
//
// A first token comes after a wait W for a place, a wait Q for another prompt on the same replica, the rest of the step
// in progress, and the steps of the prompt, of which nothing is cached:
//
//	P(W > t) = C(c, A) · exp(-t · (c - A) / S)
//	P(Q > t) = u · exp(-t · (1 - u) / F'), u = rate · F, F' = F · (1 + v²) / 2
//
// W is the wait in a queue in front of all places (M/M/c, with Erlang's formula C), where a sequence takes
// S = A / (n · rate). If outputs vary more than exponential ones, with a standard deviation of v > 1 of the mean, it
// is (1 + v²) / 2 times as long (Lee and Longton, 1959). Q is the wait in an M/G/1 queue (Pollaczek and Khinchine) of
// prompts, with the v of prompts, taken as exponential. Since both are rare, P(W > t) + P(Q > t) is taken for that of
// one or the other. The share of late requests is the mean over the lengths of prompts. The P99 of the wait and that
// of the prompt seldom come together, so that their sum would be too pessimistic. Other models on the device are not
// in it.
package cost
