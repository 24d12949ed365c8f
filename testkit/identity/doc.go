// Package identity checks that models which share devices never mix, and that requests outlive what
// operators and crashes do to their models. Its test runs six distinct models (testkit/models) on two
// devices that hold two each, under many streams with Zipf demand. Every second an operator switches a
// GPU, or parks, activates, puts to standby or to sleep a model at random, and requests wake what sleeps.
// Meanwhile nodes are killed with SIGKILL. Every stream is compared with a run of its model alone, of
// which testkit/reference, which shares no code with the engine's forward pass, checks the greedy ones.
//
// Requests wait, so none may be refused, except when its own time is up. A stream through a node that
// was killed is repeated at another node. "make identity" runs the test for half a minute or for
// MINUTES; "make test" only for seconds and without kills.
package identity
