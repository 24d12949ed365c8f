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
package gateway
