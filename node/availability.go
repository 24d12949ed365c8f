package node

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/cluster/natsd"
	"troupe/control"
	"troupe/gateway"
	"troupe/messages"
)

// storeView is this node's own view of the store and its servers.
type storeView struct {
	disk                         natsd.Disk // of the embedded server; zero: none
	connected, servers, majority int        // servers of the NATS cluster; 0: no cluster
	online                       bool       // connected to NATS
	clustered                    bool       // the connected server is part of a NATS cluster
	unanswered                   time.Time  // start of the failed renewals; zero if the last one succeeded
	now                          time.Time
}

const unchanged = "; nothing was changed"

// problem returns why the store takes no changes, or nil.
func (v storeView) problem() *messages.Refused {
	refuse := func(reason messages.Reason, format string, args ...any) *messages.Refused {
		return &messages.Refused{Reason: reason, Detail: fmt.Sprintf(format, args...) + unchanged}
	}
	switch {
	case v.connected < v.majority:
		return refuse(messages.Reason_REASON_NO_QUORUM,
			"no quorum: %d of %d NATS servers are connected and %d are needed; "+
				"start the others, or repair the network between them",
			v.connected, v.servers, v.majority)
	case v.disk.State == natsd.DiskStopped && v.servers == 1:
		return refuse(messages.Reason_REASON_NO_SPACE, "%s", v.disk)
	case !v.online:
		return refuse(messages.Reason_REASON_NO_QUORUM, "the store is unreachable: this node is not connected to NATS")
	case !v.unanswered.IsZero():
		why := "the store takes no changes"
		if v.clustered {
			why = "no quorum: the store takes no changes"
		}
		return refuse(messages.Reason_REASON_NO_QUORUM,
			"%s for %s; nodes.list shows lost nodes and full disks",
			why, v.now.Sub(v.unanswered).Round(100*time.Millisecond))
	}
	return nil
}

// causes returns why a node is not ready because of its store.
func (v storeView) causes() (all []gateway.Cause) {
	if v.disk.State == natsd.DiskLow || v.disk.State == natsd.DiskStopped {
		all = append(all, gateway.CauseDisk)
	}
	p := v.problem()
	switch {
	case p == nil || p.GetReason() == messages.Reason_REASON_NO_SPACE:
	case v.connected < v.majority || v.online && v.clustered:
		all = append(all, gateway.CauseQuorum)
	case len(all) == 0:
		all = append(all, gateway.CauseStore)
	}
	return all
}

// storeState returns this node's current view of the store.
func (n *Node) storeState() storeView {
	v := storeView{online: n.conn.IsConnected(), clustered: n.conn.ConnectedClusterName() != "", now: time.Now()}
	if n.nats != nil {
		v.disk = n.nats.Disk()
		v.connected, v.servers, v.majority = n.nats.Quorum()
	}
	if since, ok := n.members.RenewalsFailingSince(); ok {
		v.unanswered = since
	}
	return v
}

// StoreProblem implements control.Backend.
func (n *Node) StoreProblem() *messages.Refused { return n.storeState().problem() }

// checkStore returns an error while the store takes no changes.
func (n *Node) checkStore() error {
	if p := n.StoreProblem(); p != nil {
		return control.Refusal{Refused: p}
	}
	return nil
}

// diskStatus returns the state of the store's disk, or nil if this node has none.
func (n *Node) diskStatus() *messages.DiskStatus {
	if n.nats == nil {
		return nil
	}
	d := n.nats.Disk()
	return &messages.DiskStatus{
		Folder: d.Folder, FreeBytes: uint64(d.Free), NeededBytes: uint64(d.Needed),
		Low: d.State != natsd.DiskOK, Stopped: d.State == natsd.DiskStopped, Detail: d.String(),
	}
}

// publishDisk publishes a change of the disk as an event; the server has logged it.
func (n *Node) publishDisk(d natsd.Disk) {
	n.mu.Lock()
	events := n.diskEvents
	n.mu.Unlock()
	if events == nil {
		return // the node is starting
	}
	kind := map[natsd.DiskState]string{
		natsd.DiskOK: "disk.restored", natsd.DiskLow: "disk.low", natsd.DiskStopped: "disk.full",
	}[d.State]
	events.Publish(kind, d.Folder, d.String())
}

// Departed implements control.Backend.
func (n *Node) Departed() (all []*messages.NodeStatus) {
	for _, d := range n.members.Departed() {
		word := "lost"
		if d.Member.GetState() == messages.MemberState_MEMBER_STATE_LEFT {
			word = "left"
		}
		all = append(all, &messages.NodeStatus{
			Member: d.Member, LastSeen: timestamppb.New(d.LastSeen),
			Unreachable: fmt.Sprintf("%s; last seen at %s", word, d.LastSeen.UTC().Format(time.RFC3339)),
		})
	}
	return all
}

// LastSeen implements control.Backend.
func (n *Node) LastSeen(node string) *timestamppb.Timestamp {
	seen, ok := n.members.LastSeen(node)
	if !ok {
		return nil
	}
	return timestamppb.New(seen)
}
