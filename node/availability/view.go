package availability

import (
	"fmt"
	"time"

	"troupe/cluster/natsd"
	"troupe/gateway"
	"troupe/messages"
)

// view is this node's own view of the store and its servers.
type view struct {
	disk                         natsd.Disk // of the embedded server; zero: none
	connected, servers, majority int        // servers of the NATS cluster; 0: no cluster
	online                       bool       // connected to NATS
	clustered                    bool       // the connected server is part of a NATS cluster
	unanswered                   time.Time  // start of the failed renewals; zero if the last renewal succeeded
	now                          time.Time
}

const unchanged = "; nothing was changed"

// problem returns why the store does not accept changes, or nil.
func (v view) problem() *messages.Refused {
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

// causes returns the reasons related to the store why a node is not ready.
func (v view) causes() (all []gateway.Cause) {
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
