// Package sample chooses the next token from logits.
//
// The choice is a function of the logits, the parameters, the tokens so far and the position. Its
// random number depends only on the seed and the position. A sequence that migrates to another
// replica, or is recomputed after a crash, therefore continues with the same tokens.
//
// Invariants, checked by the property test:
//
//   - support: a chosen token passes every enabled filter
//   - greedy: at temperature 0 the likeliest token is chosen; on a tie, the one with the lowest ID
//   - distribution: frequencies follow the filtered softmax
//   - repeatable: equal arguments choose the same token
package sample
