// Package bound computes what a scheduler that knows all demand in advance could reach at best: the
// least device-hours for a day of demand, and the largest multiple of the demand that a pool
// carries. Both are mixed-integer programs, which HiGHS solves (package.json; "npm ci" installs
// it).
//
// # Program
//
// A day is divided into buckets. In bucket t, model m has the arrival rate r(m,t), and C(m,k) is
// the highest rate that k replicas serve within the SLO. Variables are the numbers of replicas
// n(m,t), and what is served of a batch model, s(m,t), where it may be served later:
//
//	minimize    hours of a bucket · sum over t of D(t)
//	n(m,t)   ≥  the least k with C(m,k) ≥ r(m,t), and Min(m)
//	n(m,t)   ≤  Max(m)
//	D(t)     ≤  devices of the pool
//
// With whole devices, D(t) is the sum over m of Group(m) · n(m,t). With shared devices, it is that
// sum over the models that do not share, and an integer that is at least the sum over the others of
// their rates, each divided by the best C(m,k)/k. It is at least 1 if a model that shares has
// replicas or demand.
//
// If a batch model is served within the day, its n(m,t) has no lower limit but Min, and
//
//	s(m,t)                        ≤  n(m,t) · best C(m,k)/k
//	sum of s(m,u) over u ≤ t      ≤  sum of r(m,u) over u ≤ t     nothing is served before it arrives
//	sum of s(m,u) over all u      =  sum of r(m,u) over all u
//
// # Why it is a bound
//
// A schedule that serves the demand of each bucket within the SLO has, on average over the bucket,
// at least as many devices as the program. Loads take no time here, replicas start and stop without
// cost at the borders of buckets, the demand of a bucket is spread evenly, and shared devices lose
// nothing to each other. A schedule that serves less than its capacity in one bucket and more in
// another one may have fewer device-hours; buckets of 15 minutes are long against the waits that
// SLOs allow, and short against the changes of demand over a day.
//
// The largest multiple is the largest λ for which the program with rates λ·r(m,t) has a solution.
// It is found by bisection, since the least k is not linear in λ.
package bound
