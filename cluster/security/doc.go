// Package security authenticates nodes to each other. Their certificates are of one CA, and both
// sides of each connection verify them (TLS 1.3), between nodes and to NATS.
//
// Certificate, key, CAs and revoked certificates are read again when their files change. A new
// certificate is used for new connections, and open ones continue. Connections whose peer is no
// longer trusted are closed; see Identity.Watch. To change the CA, add the new one to the CA file,
// issue new certificates, and then remove the old CA.
//
// An Authority creates a CA and certificates, in files:
//
//	ca.crt      the CA certificate that every node trusts
//	ca.key      signs certificates; must not be on any node
//	NAME.crt    certificate of a node and its hosts
//	NAME.key    its private key
//
// A certificate for client use only gives access to NATS, whose permissions then apply, but not to
// nodes.
package security
