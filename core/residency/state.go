package residency

// State is the state of a copy.
type State uint8

// States.
const (
	Absent    State = iota // the device has no such copy
	Wanted                 // a replica needs the copy and waits for memory
	Loading                // the memory is leased and being filled
	Resident               // the weights are on the device
	Leaving                // the weights are on the device until their readers have ended
	Releasing              // the memory is being freed
)

func (s State) String() string {
	return [...]string{"absent", "wanted", "loading", "resident", "leaving", "releasing"}[s]
}

// Event is a kind of event of one copy.
type Event uint8

// Events.
const (
	evWant          Event = iota // a lease is to use the copy
	evGrant                      // there is memory for the lease, including the copy if it is not there yet
	evLoaded                     // the memory is filled
	evLoadFailed                 // the load failed and left nothing in memory
	evRecovered                  // an earlier incarnation left the copy in memory
	evActivate                   // a lease serves with the copy
	evStandby                    // a lease no longer serves, and keeps the copy
	evGone                       // a lease no longer uses the copy
	evRead                       // a reader is to copy the weights to another device or node
	evReadEnded                  // a reader has ended
	evOverdue                    // readers have had their time to end
	evEvict                      // the memory is needed, or a command drops the copy
	evDrop                       // the device is lost or quarantined
	evReleased                   // the memory is free
	evReleaseFailed              // the memory could not be freed
)

func (e Event) String() string {
	return [...]string{"want", "grant", "loaded", "load-failed", "recovered", "activate", "standby", "gone", "read",
		"read-ended", "overdue", "evict", "drop", "released", "release-failed"}[e]
}

// Level is how close the weights of a model are to serving.
type Level uint8

// Levels.
const (
	Cold    Level = iota // on disk only
	Parked               // in the host cache of the node
	Standby              // on the device, without KV memory to serve with
	Active               // a replica serves with them
)

func (l Level) String() string { return [...]string{"cold", "parked", "standby", "active"}[l] }

// Fate is what becomes of a copy when its last lease is gone.
type Fate uint8

// Fates.
const (
	Keep       Fate = iota // it stays until its memory is needed
	Spare                  // it stays, and is evicted before those with fate Keep: its deployment is deleted
	ParkOrKeep             // it is copied to the host cache and then released, or stays if there is no room
	Drop                   // it is released at once
	Park                   // it is copied to the host cache, and then released
)

// String returns the name of the fate.
func (f Fate) String() string { return [...]string{"keep", "spare", "park or keep", "drop", "park"}[f] }
