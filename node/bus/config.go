package bus

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/security"
)

// Config configures a Bus.
type Config struct {
	Node    string // name of the node
	DataDir string // data folder of the embedded server
	// Join has the URLs of servers to use instead of an embedded one.
	Join []string
	// Listen is the address of the embedded server. ClusterListen is its address in a NATS cluster,
	// and Routes are its peers there.
	Listen, ClusterListen string
	Routes                []string
	UsersFile             string   // users of the embedded server; empty: it requires no credentials
	InboxPrefixes         []string // inbox prefixes of users that UsersFile does not name
	TLS                   *security.Identity
	Login                 security.Login
	Audit                 Audit
	Registry              prometheus.Registerer
	Log                   zerolog.Logger
	Runtime               supervise.Runtime
}

// Audit records events of the embedded server.
type Audit interface {
	// Reloaded returns a callback that records the reload of a file.
	Reloaded(what string) func(error)
	// NATSRefused records a denied request.
	NATSRefused(address, what string)
}
