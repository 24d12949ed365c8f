// Package slots computes the least number of loads with which models that share slots serve a trace, if no request
// waits longer than a bound.
//
// # Problem
//
// There are N models and K slots. A slot holds one model at a time. A load puts a model into a slot, and evicts the one
// that it held. A request of a model at time t is served at any time from t to t + W at which a slot holds the model.
// Loads and requests take no time, and all arrivals are known in advance. Wanted is the least number of loads with
// which all requests are served.
//
// A real schedule, in which loads and requests take time, is also a solution of this problem: leave out the times, and
// count each model as held from the moment it serves until it is evicted. So the result is a lower bound for every
// schedule in which no request waits longer than W until it is served. With W = 0 it is the problem of paging, whose
// optimum evicts the page that is needed last (Belady 1966).
//
// # Loads at deadlines
//
// The deadline of an absent model is t + W for its oldest request that is not served. There is an optimal schedule in
// which each load either happens at the deadline of its model, or is followed at once by another load into the same
// slot. Proof: take an optimal schedule, and its earliest load that does neither. Its model has no deadline before the
// time at which it is evicted, or has one at d. Move the load to the earlier one of these times: to d, or immediately
// before the load that evicts it. The slot holds what it held before for longer, which serves requests or does no harm.
// The requests for the moved model that arrived until then are served at the new time, none after its deadline, since
// the oldest one of them has not passed its own. So the schedule is still a solution, with as many loads, and the
// earliest load that does neither is later, or there is one fewer. (If the model is never evicted and has no deadline,
// leave the load out.)
//
// # Search
//
// So only the deadlines matter. Between them, a state is the set of models that are held, and for each absent model the
// first request after it was evicted, which has the next deadline. At the earliest deadline of a state, its model is
// loaded in the place of one of those held. Immediately before, any absent models with waiting requests may be loaded
// and evicted at once. Each choice leads to a state with a known number of loads. All states of which the deadline has
// not passed are kept together, and these are removed:
//
//   - one that holds the same models as another one that has as many loads or fewer, and none of whose absent models
//     has a later first request: whatever serves the requests of the removed one also serves those of the other
//   - one with N - K + 1 loads more than another one: the other one can load its N - K absent models at once, and one
//     that it evicted for that again, and then holds any K of all models, without a waiting request
//
// What remains is small, since the numbers of loads in it differ by N - K at most.
package slots
