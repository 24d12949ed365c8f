package residency

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"troupe/core/hbm"
)

// Source is where weights are loaded from, and which content they must have.
type Source struct {
	Model string // the deployment
	Path  string
	// Revision is the digest that the files must have; empty: any.
	Revision string
	// Expected is the digest that the files have as far as is known; empty: not known.
	Expected string
	// Deploy counts the models.deploy commands that may have changed the files.
	Deploy uint64
	Layout string // of the weights in the memory of this kind of device
	Bytes  int64  // in device memory
}

// Digest returns the digest of the content, or "" if it is not known before the load.
func (s Source) Digest() string { return cmp.Or(s.Revision, s.Expected) }

// Content identifies the weights that were loaded, by their digests.
type Content struct{ Weights, Revision string }

// User is a lease that uses a copy.
type User struct {
	Lease   string
	Serving bool // the replica of the lease serves
	waits   bool // for the load
}

// Copy describes the weights of one model on the device.
type Copy struct {
	Number  uint64
	State   State
	Source  Source
	Content Content // zero before the load has ended
	Users   []User  // sorted by lease
	Readers []string
	Spare   bool // no deployment wants it
	Used    time.Time
}

// Level returns the level of the weights.
func (c Copy) Level() Level {
	switch {
	case c.State < Resident:
		return Cold
	case slices.ContainsFunc(c.Users, func(u User) bool { return u.Serving }):
		return Active
	}
	return Standby
}

// Pages returns the number of pages that the weights need.
func (c Copy) Pages() int { return hbm.PagesOf(c.Source.Bytes) }

// Owner returns the owner of the copy's pages in the ledger.
func (c Copy) Owner() string { return owner(c.Number) }

func owner(number uint64) string { return fmt.Sprintf("weights-%d", number) }

// copied is the state of a copy.
type copied struct {
	number  uint64
	state   State
	source  Source
	content Content
	users   []User
	served  bool // a replica has served with it
	spoiled bool // its content is lost
	spare   bool
	used    time.Time // the last time that it had a user or a reader

	readers []string // in the order in which they began
	revoked bool     // all readers are to end
	pending Release  // of a copy that is leaving
	until   time.Time
}

func (c *copied) describe() Copy {
	return Copy{Number: c.number, State: c.state, Source: c.source, Content: c.content, Users: slices.Clone(c.users),
		Readers: slices.Clone(c.readers), Spare: c.spare, Used: c.used}
}

// matches reports whether the copy has, or will have, what a source asks for.
func (c *copied) matches(s Source) bool {
	switch {
	case c.state == Absent || c.state >= Leaving || c.source.Layout != s.Layout:
		return false
	case c.state == Resident && s.Digest() != "":
		return c.content.Revision == s.Digest()
	case c.source.Revision != s.Revision: // one of the loads may fail because of the digest
		return false
	}
	return s.Revision != "" || c.source.Model == s.Model && c.source.Path == s.Path && c.source.Deploy == s.Deploy
}

// user returns a user of the copy, or nil.
func (c *copied) user(lease string) *User {
	if i := slices.IndexFunc(c.users, func(u User) bool { return u.Lease == lease }); i >= 0 {
		return &c.users[i]
	}
	return nil
}

func (c *copied) remove(lease string) {
	c.users = slices.DeleteFunc(c.users, func(u User) bool { return u.Lease == lease })
}

func (c *copied) add(u User) {
	c.remove(u.Lease)
	c.users = append(c.users, u)
	slices.SortFunc(c.users, func(a, b User) int { return cmp.Compare(a.Lease, b.Lease) })
}
