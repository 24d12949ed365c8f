package router

// Sync is how much this router knows of a peer's node.
type Sync uint8

// Syncs.
const (
	Absent  Sync = iota // the node is not a member
	Syncing             // no snapshot of the peer's incarnation has arrived
	Synced              // all announcements up to the last one have been applied
	Lagging             // an announcement after the last applied one is missing
)

func (s Sync) String() string { return [...]string{"absent", "syncing", "synced", "lagging"}[s] }

// Contact is whether a peer is heard from.
type Contact uint8

// Contacts.
const (
	Unheard Contact = iota // nothing has arrived since the connection broke, or ever
	Heard
	Silent // nothing has arrived for silenceTimeout
)

func (c Contact) String() string { return [...]string{"unheard", "heard", "silent"}[c] }

// Phase is the router's own state.
type Phase uint8

// Phases.
const (
	Starting   Phase = iota // not all stored deployments are known
	CatchingUp              // no snapshot of some peer has arrived
	Ready                   // the router knows what the others knew before it
)

func (p Phase) String() string { return [...]string{"starting", "catching-up", "ready"}[p] }

// Event is a kind of event that the tables name.
type Event uint8

// Events.
const (
	Joined    Event = iota // the node is a member
	Left                   // the node is no longer a member
	Announced              // an announcement of the peer arrived
	Lost                   // the connection to the peer broke
	Aged                   // time has passed
	Credited               // this router stalled; its peers are credited with the time
	StoreRead              // all stored deployments have been read
	Changed                // members or announcements were applied
)

func (e Event) String() string {
	return [...]string{"joined", "left", "announced", "lost", "aged", "credited", "store-read", "changed"}[e]
}
