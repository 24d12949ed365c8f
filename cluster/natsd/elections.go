package natsd

import (
	"sync"
	"time"
	_ "unsafe" // for go:linkname

	_ "github.com/nats-io/nats-server/v2/server" // whose variables these are
)

// nats-server has no option for the times of its elections, and waits 4 to 9 s before it replaces a leader that was killed:
// for as long nobody could be found dead, and no lease taken. The times below are for servers in one building.
// TestElections fails where a new version of nats-server does not heed them.

//go:linkname minElectionTimeout github.com/nats-io/nats-server/v2/server.minElectionTimeout
var minElectionTimeout time.Duration

//go:linkname maxElectionTimeout github.com/nats-io/nats-server/v2/server.maxElectionTimeout
var maxElectionTimeout time.Duration

//go:linkname hbInterval github.com/nats-io/nats-server/v2/server.hbInterval
var hbInterval time.Duration

// quickElections must be called before the first server of the process that is in a cluster.
var quickElections = sync.OnceFunc(func() {
	minElectionTimeout, maxElectionTimeout, hbInterval = 600*time.Millisecond, 1200*time.Millisecond, 120*time.Millisecond
})
