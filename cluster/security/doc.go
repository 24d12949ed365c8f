// Package security is how nodes know each other: certificates of one CA, verified by both sides of every connection (TLS 1.3), between
// nodes and to NATS.
//
// A certificate and its key are read again when their files change, for new connections; those that are open go on. The CA is read once:
// to change it, put the new one beside the old into the file, restart the nodes in turn, give them new certificates, and take the old one out
// the same way.
//
// An Authority makes a CA and certificates to begin with, in files:
//
//	ca.crt      what every node trusts
//	ca.key      makes certificates; belongs on no node
//	NAME.crt    who a node is, and under which hosts
//	NAME.key
//
// A certificate for use as a client alone opens NATS, where it is for NATS to say what its owner may do, and nothing between nodes.
package security
