// Package gateway serves clients: the OpenAI API over HTTP, and inference over NATS.
//
// A request opens one Call per sequence. The request's goroutine owns its Calls. It outlives every
// actor that may crash, so a Call is the record of what the client has received. The goroutine
// decodes tokens, finds stop strings and writes the response; it knows nothing of replicas.
//
// # The life of a request
//
// A request over HTTP enters at [Gateway.ServeHTTP], which checks its origin and its key. One over
// NATS enters at [Gateway.Infer]. From there both take the same steps, listed in [Gateway.serve]:
//
//	HTTP ─ serveCompletion ─┐
//	                        ├─ serve ─ read ─ admit ─ resolve ─ encode ─ submit ─ deliver ─ account
//	NATS ─ Infer ───────────┘
//
// Each step is a function in a file of its name. It fills in its part of the [generation] and returns
// to the list. After an error, only account follows.
//
//  1. [Gateway.read] reads and parses the body, within the memory for bodies.
//  2. [Gateway.admit] takes one of the client's places, and starts the request's time.
//  3. [Gateway.resolve] finds the deployment, adapter, tokenizer, salt and priority class.
//  4. [Gateway.encode] renders the chat template, tokenizes, and creates a choice per sequence.
//  5. [Gateway.submit] reserves tokens of the client's limits, and opens the calls.
//  6. [Gateway.deliver] decodes tokens, finds stop strings, and writes the response.
//  7. [Gateway.account] closes open calls, returns what was reserved, and counts and logs.
//
// The protocols differ in how a request is read and its response written. The steps leave that to an
// [exchange]: an [httpExchange] or a [natsExchange].
//
// # The gateway actor
//
// Parent: node. Children: one session per open Call. Accepts OpenSession and CloseSession. It owns
// no state. On Started it starts a session for every open Call, so a crash only delays the clients.
// When a session exceeds its restart limit, the gateway actor fails its Call.
//
// # Readiness and draining
//
// /ready reports on the node, /ready?model=NAME on one model. A gateway that shuts down drains
// first. It fails /ready but serves requests for a while, until load balancers have noticed. Then
// it refuses new requests (requestGate) and waits for the requests in flight.
//
// # Quotas
//
// Quotas counts the requests and tokens of each client. Like Calls, it is not owned by an actor. A
// client is an API key; without keys an address; over NATS an account. A request is admitted once
// its body has arrived. core/quota decides: a client may hold half of the places that the others
// leave free. One client thus takes 2048 of 4096 places and a second one 1024, and places remain
// for more. Quotas do not order requests: core/batch decides which client a replica serves first.
//
// # The usage actor
//
// Parent: node. Children: none. Accepts MembersChanged, UsageAnnounced from its peers, and
// GetUsage. Every second it reports the usage of API keys at this gateway to the usage actors of
// the other nodes. It owns no state; a crash delays one report.
package gateway
