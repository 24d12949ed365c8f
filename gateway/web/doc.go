// Package web serves HTTP to untrusted clients.
//
// A client keeps a connection, and its file descriptor, only while it makes progress: headers,
// bodies, idle connections and responses have deadlines. Connections are limited in total and per
// peer address. A connection beyond a limit is an overflow connection. It gets one response, to a
// probe or with status 503, and is closed.
//
// Invariants:
//   - no client keeps a connection without sending or reading
//   - a request whose body was not read ends its connection
//   - regardless of the number of connections, probes get a response
//   - half of the process's descriptors stay free
package web
