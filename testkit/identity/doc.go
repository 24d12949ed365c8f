// Package identity checks that models which share devices never mix. Its test runs six distinct
// models (testkit/models) on two nodes whose devices hold two each, under many streams with Zipf
// demand. Every second it takes models off their devices and brings others in, and now and then it
// kills a node with SIGKILL. Every stream is compared with testkit/reference, which shares no code
// with the engine's forward pass.
//
// A request may be refused only because its model is off the devices, with the typed refusal for a
// stopped model or for a lack of memory. A stream through a node that was killed is repeated at
// another node. "make identity" runs the test for some minutes; "make test" only for seconds and
// without kills.
package identity
