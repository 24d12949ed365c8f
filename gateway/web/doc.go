// Package web serves HTTP to clients that are not trusted.
//
// A client holds a connection, and a descriptor with it, for as long as it makes progress: headers,
// bodies, idle connections and answers have deadlines. Connections are limited in all and for each
// peer address. A connection beyond a limit is spare: it is answered once, with what probes ask for
// or with status 503, and closed.
//
// Invariants: no client keeps a connection without sending or reading; a request whose body was not
// read ends its connection; however many connections clients open, a probe is answered and half of
// the descriptors stay free.
package web
