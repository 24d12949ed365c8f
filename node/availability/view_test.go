package availability

import (
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/cluster/natsd"
	"troupe/gateway"
	"troupe/messages"
)

// TestView checks the problem and the causes for each state of the store.
func TestView(t *testing.T) {
	now := time.Unix(1000, 0)
	alone := view{
		disk:      natsd.Disk{State: natsd.DiskOK, Folder: "/data"},
		connected: 1, servers: 1, majority: 1, online: true, now: now,
	}
	trio := view{
		disk:      alone.disk,
		connected: 3, servers: 3, majority: 2, online: true, clustered: true, now: now,
	}
	guest := view{online: true, now: now} // uses the server of another node
	with := func(v view, change func(*view)) view { change(&v); return v }
	disk := func(s natsd.DiskState) func(*view) {
		return func(v *view) { v.disk = natsd.Disk{State: s, Folder: "/data", Free: 1, Needed: 100} }
	}
	silent := func(v *view) { v.unanswered = now.Add(-5 * time.Second) }
	const none = messages.Reason_REASON_UNSPECIFIED
	const noQuorum, noSpace = messages.Reason_REASON_NO_QUORUM, messages.Reason_REASON_NO_SPACE
	for name, c := range map[string]struct {
		view   view
		reason messages.Reason
		detail string
		causes []gateway.Cause
	}{
		"alone":             {alone, none, "", nil},
		"trio":              {trio, none, "", nil},
		"guest":             {guest, none, "", nil},
		"one of three lost": {with(trio, func(v *view) { v.connected = 2 }), none, "", nil},
		"two of three lost": {with(trio, func(v *view) { v.connected = 1 }), noQuorum,
			"1 of 3 NATS servers are connected and 2 are needed", []gateway.Cause{gateway.CauseQuorum}},
		"trio without a leader": {with(trio, silent), noQuorum, "no quorum: the store takes no changes for 5s",
			[]gateway.Cause{gateway.CauseQuorum}},
		"client of a trio without a leader": {with(guest, func(v *view) { v.clustered = true; silent(v) }),
			noQuorum,
			"no quorum", []gateway.Cause{gateway.CauseQuorum}},
		"client of a server that does not answer": {with(guest, silent), noQuorum, "full disks",
			[]gateway.Cause{gateway.CauseStore}},
		"not connected": {with(guest, func(v *view) { v.online = false }), noQuorum, "not connected",
			[]gateway.Cause{gateway.CauseStore}},
		"little space": {with(alone, disk(natsd.DiskLow)), none, "", []gateway.Cause{gateway.CauseDisk}},
		"full disk": {with(alone, disk(natsd.DiskStopped)), noSpace, "/data has 1 B free and needs 100 B",
			[]gateway.Cause{gateway.CauseDisk}},
		"full disk, renewals fail": {with(with(alone, disk(natsd.DiskStopped)), silent), noSpace, "/data",
			[]gateway.Cause{gateway.CauseDisk}},
		"full disk, and reconnecting": {with(with(alone, disk(natsd.DiskLow)), func(v *view) { v.online = false }),
			noQuorum, "not connected", []gateway.Cause{gateway.CauseDisk}},
		"full disk of one of three": {with(trio, disk(natsd.DiskStopped)), none, "",
			[]gateway.Cause{gateway.CauseDisk}},
	} {
		p := c.view.problem()
		if p.GetReason() != c.reason || !strings.Contains(p.GetDetail(), c.detail) {
			t.Errorf("%s: %v, want %s, %q", name, p, c.reason, c.detail)
		}
		if p != nil && !strings.HasSuffix(p.GetDetail(), "nothing was changed") {
			t.Errorf("%s: %q lacks that nothing was changed", name, p.GetDetail())
		}
		if got := c.view.causes(); !slices.Equal(got, c.causes) {
			t.Errorf("%s: causes %v, want %v", name, got, c.causes)
		}
	}
}
