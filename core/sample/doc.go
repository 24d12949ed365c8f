// Package sample chooses the next token from logits.
//
// The choice is a function of the logits, the parameters, the tokens so far, and the position: its random number is drawn from
// (seed, position) alone. A sequence that moves to another replica, or is computed again after a crash, thus goes on as
// it would have.
//
// Invariants, checked by the property test:
//
//   - support: a chosen token passes every filter that is on
//   - greedy: at temperature 0 it is the likeliest; of equals, the one with the lowest id
//   - distribution: frequencies follow the filtered softmax
//   - repeatable: the same arguments choose the same token
package sample
