// Package service is a NATS micro service. It speaks the protocol of ADR-32 like the micro package
// of nats.go, so the nats command line can list, describe, ping and measure it.
//
// It differs in one thing: each request passes a reply.Guard before it is handled, including
// requests to $SRV, which nats.go answers itself. A Request is the only way to answer, so no
// handler can publish to a subject that a client chose freely.
package service
