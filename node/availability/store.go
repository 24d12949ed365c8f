package availability

import (
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"troupe/actors/supervise"
	"troupe/cluster/natsd"
	"troupe/control"
	"troupe/gateway"
	"troupe/messages"
)

// Server is the node's connection to NATS and its embedded server, if it has one.
type Server interface {
	Conn() *nats.Conn
	// Disk returns the state of the embedded server's disk, and false if there is no such server.
	Disk() (natsd.Disk, bool)
	// Quorum returns the number of servers of the NATS cluster that are connected, that exist, and
	// that a majority needs.
	Quorum() (connected, servers, majority int)
}

// Members are the node's membership in the cluster.
type Members interface {
	RenewalsFailingSince() (since time.Time, ok bool)
	BucketLost() bool
}

// Store reports whether the store accepts changes.
type Store struct {
	Server  Server
	Members Members
	Lost    func() bool // reports whether stored state is lost
	Runtime supervise.Runtime
}

// view returns this node's current view of the store.
func (s *Store) view() view {
	conn := s.Server.Conn()
	v := view{online: conn.IsConnected(), clustered: conn.ConnectedClusterName() != "", now: s.Runtime.Now()}
	v.disk, _ = s.Server.Disk()
	v.connected, v.servers, v.majority = s.Server.Quorum()
	if since, ok := s.Members.RenewalsFailingSince(); ok {
		v.unanswered = since
	}
	return v
}

// Problem returns why the store does not accept changes, or nil.
func (s *Store) Problem() *messages.Refused { return s.view().problem() }

// Check returns an error while the store does not accept changes.
func (s *Store) Check() error {
	if p := s.Problem(); p != nil {
		return control.Refusal{Refused: p}
	}
	return nil
}

// Causes returns why this node is not ready, apart from its deployments: stored state is lost, or
// the store does not accept changes.
func (s *Store) Causes() []gateway.Cause {
	all := s.view().causes()
	if (s.Lost() || s.Members.BucketLost()) && !slices.Contains(all, gateway.CauseStore) {
		all = append(all, gateway.CauseStore)
	}
	return all
}

// Disk returns the state of the store's disk, or nil if this node has none.
func (s *Store) Disk() *messages.DiskStatus {
	d, ok := s.Server.Disk()
	if !ok {
		return nil
	}
	return &messages.DiskStatus{
		Folder: d.Folder, FreeBytes: uint64(d.Free), NeededBytes: uint64(d.Needed),
		Low: d.State != natsd.DiskOK, Stopped: d.State == natsd.DiskStopped, Detail: d.String(),
	}
}
