package availability

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"troupe/actors/supervise"
	"troupe/cluster/natsd"
	"troupe/gateway"
	"troupe/messages"
)

// offline is a node that is not connected to NATS.
type offline struct{ disk *natsd.Disk }

func (offline) Conn() *nats.Conn { return &nats.Conn{} }

func (o offline) Disk() (natsd.Disk, bool) {
	if o.disk == nil {
		return natsd.Disk{}, false
	}
	return *o.disk, true
}

func (offline) Quorum() (connected, servers, majority int) { return 0, 0, 0 }

func (offline) RenewalsFailingSince() (time.Time, bool) { return time.Time{}, false }

func (offline) BucketLost() bool { return true }

// TestStore checks the reported problem and disk of a node without a connection.
func TestStore(t *testing.T) {
	s := Store{Server: offline{}, Members: offline{}, Lost: func() bool { return false }, Runtime: supervise.System}
	if p := s.Problem(); p.GetReason() != messages.Reason_REASON_NO_QUORUM || s.Check() == nil {
		t.Error(p)
	}
	if c := s.Causes(); len(c) != 1 || c[0] != gateway.CauseStore {
		t.Error(c)
	}
	if s.Disk() != nil {
		t.Error("a disk without a server")
	}
	s.Server = offline{disk: &natsd.Disk{State: natsd.DiskLow, Folder: "/d", Free: 1, Needed: 2}}
	if d := s.Disk(); !d.GetLow() || d.GetStopped() || d.GetFolder() != "/d" {
		t.Error(d)
	}
}
