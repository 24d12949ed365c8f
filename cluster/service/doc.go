// Package service is a NATS micro service: it speaks the protocol of ADR-32 as the micro package of
// nats.go does, so that the nats command line lists, describes, pings and measures it.
//
// It differs in one thing: each request passes a reply.Guard before it is handled, requests to $SRV
// included, which nats.go answers by itself. Request is the only way to an answer, so no handler
// can publish to a subject that a client chose freely.
package service
