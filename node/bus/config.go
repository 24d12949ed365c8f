package bus

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/security"
)

// Config configures a Bus.
type Config struct {
	Node    string // name
	DataDir string // of the embedded server
	// Join are the URLs of servers to use instead of an embedded one.
	Join []string
	// Listen is the address of the embedded server; ClusterListen and Routes are its own address
	// and its peers in a NATS cluster.
	Listen, ClusterListen string
	Routes                []string
	UsersFile             string   // of the embedded server; empty: it asks for no credentials
	InboxPrefixes         []string // of users that UsersFile does not name
	TLS                   *security.Identity
	Login                 security.Login
	Audit                 Audit
	Registry              prometheus.Registerer
	Log                   zerolog.Logger
	Runtime               supervise.Runtime
}

// Audit records what happens to the embedded server.
type Audit interface {
	// Reloaded returns a callback that records the reload of a file.
	Reloaded(what string) func(error)
	// NATSRefused records a denied request.
	NATSRefused(address, what string)
}
