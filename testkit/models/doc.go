// Package models generates model folders that a node loads like any other.
//
// Perturb writes a variant of a model: the same shapes and tokenizer, other weights, and therefore
// other outputs, which testkit/reference computes. Random writes a model of any size, for
// measuring loads; its outputs mean nothing. The same arguments write the same bytes on every
// machine, and different seeds give different digests. A copy of a folder has the digest of the
// original.
package models
