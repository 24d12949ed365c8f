package router

// Sync tells how complete this router's view of a peer's node is.
type Sync uint8

// States of a peer.
const (
	Absent  Sync = iota // the node is not a member
	Syncing             // no snapshot of the peer's incarnation has arrived
	Synced              // all announcements up to the last one have been applied
	Lagging             // an announcement after the last applied one is missing
)

func (s Sync) String() string { return [...]string{"absent", "syncing", "synced", "lagging"}[s] }

// Contact tells whether a peer is heard from.
type Contact uint8

// States of the contact with a peer.
const (
	Unheard Contact = iota // nothing has arrived since the connection broke, or ever
	Heard
	Silent // nothing has arrived for silenceTimeout
)

func (c Contact) String() string { return [...]string{"unheard", "heard", "silent"}[c] }

// Phase is the state of the router itself.
type Phase uint8

// Phases.
const (
	Starting   Phase = iota // not all stored deployments are known
	CatchingUp              // a snapshot of some peer is missing
	Ready                   // the router knows everything that the others knew when it started
)

func (p Phase) String() string { return [...]string{"starting", "catching-up", "ready"}[p] }

// Event is a kind of event in the tables.
type Event uint8

// Events.
const (
	Joined    Event = iota // the node is a member
	Left                   // the node is no longer a member
	Announced              // an announcement of the peer arrived
	Lost                   // the connection to the peer broke
	Aged                   // time has passed
	Credited               // this router stalled; its peers' silence is reduced by that time
	StoreRead              // all stored deployments have been read
	Changed                // members or announcements were applied
)

func (e Event) String() string {
	return [...]string{"joined", "left", "announced", "lost", "aged", "credited", "store-read", "changed"}[e]
}
