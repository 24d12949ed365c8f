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
// Capacity is the rate of requests that a replica serves within its SLO, for given lengths of prompts and
// outputs. With n sequences running in the mean, each step decodes n tokens and computes n / output prompts.
// With the mean time T(n) of such a step, the rate is n / (output · T(n)). It is the highest one at which
//
//	n99 ≤ places, and n99 · (prompt + output) ≤ tokens of KV cache
//	T(n99) ≤ TPOT
//	T(n99) + steps of the prompt + wait for other prompts ≤ TTFT
//
// The P99 of sequences that arrive at random is n99 = n + 2.33·√(n / pool) for each replica of a pool among
// which they are distributed: with more replicas, fewer places are empty by chance. The prompt is a long one
// (P99), in steps of at most StepTokens beside n99 sequences; nothing of it is cached. The wait is the P99 in an
// M/D/1 queue of prompts. Other models on the device are not in it.
package cost
