// Package gateway is where clients meet Troupe: the OpenAI HTTP API and inference over NATS.
//
// A request becomes one Call per sequence. A Call is held by the request's goroutine, above everything that can crash, and
// is the record of what the client has seen. The goroutine turns tokens into text, looks for stop strings and
// writes chunks; it knows nothing of replicas.
//
// # The gateway actor
//
// Parent: node. Children: a session for each open call. Accepts OpenSession and CloseSession.
// It owns nothing: at Started it starts a session for every call that is open, so a crash costs the clients a pause. A session
// that crashed too often fails its call.
//
// # Readiness and draining
//
// /ready is about the node, /ready?model=NAME about a model. A gateway that is about to end drains: it serves requests for a
// while, so that balancers have the time to notice, then it refuses them (door). What is under way is counted and waited for.
//
// # Shares
//
// Shares counts what clients have in flight; it is held above the actors, as calls are. A client is an API key, without keys
// an address, over NATS an account. A request takes a place once its body is there, and core/quota decides whether it may:
// a client may hold half of the places that others leave, so that one client takes 2048 of 4096, a second one 1024, and
// there are places left for more. Which client a replica serves first is decided there, by core/batch.
//
// # The usage actor
//
// Parent: node. Children: none. Accepts MembersChanged, UsageAnnounced from its peers, and GetUsage. Each second it tells the
// usage actors of the other nodes what keys use here. It owns nothing; a crash delays one report.
package gateway
