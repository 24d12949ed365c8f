package members

import (
	"cmp"
	"context"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/messages"
)

// Config is fixed for the life of Members.
type Config struct {
	Name     string // of the node; unique among live members
	Instance string // ID of the data folder; a restarted node takes over its own name at once
	// Describe fills in the description of the node before the record of an incarnation is written.
	Describe func(*messages.Member)

	// WireVersion is written into the node's record. Join fails while a live member has another one.
	// Default messages.WireVersion.
	WireVersion uint32

	RenewEvery time.Duration // interval between renewals; default 300 ms
	SilentFor  time.Duration // time without a renewal after which a member is dead; default 1.2 s
	Grace      time.Duration // time after a lost connection or a stall in which no member is suspected; default 2.4 s
	// SeenTerm is the highest term known before the start. TermLimit is above all terms ever given.
	SeenTerm, TermLimit uint64
	// OnEvent is called with kind "members.lost" when the bucket was deleted, and with
	// "members.restored" when the node is a member again.
	OnEvent func(kind, detail string)
	// Refused reports whether the host of an address refuses connections to it. By default it tries
	// with TCP.
	Refused func(ctx context.Context, address string) bool
	Log     zerolog.Logger
	Runtime supervise.Runtime // default supervise.System
}

func (c Config) withDefaults() Config {
	c.Runtime = supervise.OrSystem(c.Runtime)
	c.WireVersion = cmp.Or(c.WireVersion, messages.WireVersion)
	c.RenewEvery = cmp.Or(c.RenewEvery, 300*time.Millisecond)
	c.SilentFor = cmp.Or(c.SilentFor, 4*c.RenewEvery)
	c.Grace = cmp.Or(c.Grace, 2*c.SilentFor)
	if c.Describe == nil {
		c.Describe = func(*messages.Member) {}
	}
	if c.Refused == nil {
		c.Refused = connectionRefused
	}
	if c.OnEvent == nil {
		c.OnEvent = func(string, string) {}
	}
	return c
}

// Change describes a change of the members or the leases to subscribers.
type Change struct {
	Live []*messages.Member // ordered by name
	// Left are the members that were removed since the last change. The node itself is among them
	// if it was fenced; Rejoined follows when it has joined again.
	Left []*messages.Member
	// LeasesChanged is set if the holder or the term of a lease changed, or if a lease became free.
	LeasesChanged bool
	// Rejoined is set if this node has a new incarnation. What it held in the old one is lost.
	Rejoined bool
}
