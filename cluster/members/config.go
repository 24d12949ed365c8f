package members

import (
	"cmp"
	"time"

	"github.com/rs/zerolog"

	"troupe/messages"
)

// Config is fixed for the life of Members.
type Config struct {
	Name     string // of the node; unique among the living
	Instance string // of its data folder: a node that is started again takes over its own name at once
	// Describe fills what the cluster should know of the node, before the record of each incarnation is written.
	Describe func(*messages.Member)

	RenewEvery time.Duration // default 300 ms
	SilentFor  time.Duration // without a renewal, until a member counts as dead; default 1.2 s
	Grace      time.Duration // after a lost connection or a stall, in which nobody is suspected; default 2.4 s
	Replicas   int           // of the bucket, as of bucket.Config
	// SeenTerm is the highest term that was known before, and TermLimit is above all that were given.
	SeenTerm, TermLimit uint64
	// OnEvent is called when the bucket was deleted, "members.lost", and when the node is a member again, "members.restored".
	OnEvent func(kind, detail string)
	Log     zerolog.Logger
}

func (c Config) withDefaults() Config {
	c.RenewEvery = cmp.Or(c.RenewEvery, 300*time.Millisecond)
	c.SilentFor = cmp.Or(c.SilentFor, 4*c.RenewEvery)
	c.Grace = cmp.Or(c.Grace, 2*c.SilentFor)
	if c.Describe == nil {
		c.Describe = func(*messages.Member) {}
	}
	if c.OnEvent == nil {
		c.OnEvent = func(string, string) {}
	}
	return c
}

// Change is what subscribers are told.
type Change struct {
	Live []*messages.Member // by name
	// Left are the members that are gone since the last change. The node itself is among them when it was fenced; Rejoined
	// follows as soon as it is back.
	Left []*messages.Member
	// LeasesChanged says that a lease has another holder, or another term, or none.
	LeasesChanged bool
	// Rejoined says that this node is a new incarnation: what it held as the old one is lost.
	Rejoined bool
}
