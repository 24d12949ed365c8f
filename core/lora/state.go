package lora

// State is the state of an adapter on the device. Callers see Loading for Pending and Inspecting, and
// Absent for Unregistered.
type State uint8

// States.
const (
	Absent       State = iota // registered, not on the device
	Loading                   // its pages are being copied
	Idle                      // on the device, not pinned by any request
	Active                    // on the device and pinned by requests
	Evicting                  // its pages are about to be freed
	Pending                   // waits for pages that are being evicted
	Unregistered              // not known
	Inspecting                // its size is being read from its folder
)

func (s State) String() string {
	return [...]string{"absent", "loading", "idle", "active", "evicting", "pending", "unregistered",
		"inspecting"}[s]
}

// seen returns the state as callers see it.
func (s State) seen() State {
	switch s {
	case Pending, Inspecting:
		return Loading
	case Unregistered:
		return Absent
	}
	return s
}

// eventKind is a kind of event of one adapter.
type eventKind uint8

// Events.
const (
	onRegister      eventKind = iota // the caller registers it
	onInspect                        // it is requested, and may be unknown
	onInspected                      // its size is known
	onInspectFailed                  // its folder could not be read
	onRecover                        // an earlier incarnation has filled pages with it
	onPin                            // a request pins it
	onUnpin                          // a request unpins it
	onPrefetch                       // it is popular, and not on the device
	onPages                          // it is the first in line, and its pages are free
	onNoPages                        // it is the last in line, and its pages are given back or not granted
	onLoaded                         // its pages were copied
	onLoadFailed                     // its pages could not be copied
	onChosen                         // its pages are needed for another adapter
	onEvicted                        // nothing reads its pages any longer
	onDelete                         // the caller deletes it
)

func (e eventKind) String() string {
	return [...]string{"register", "inspect", "inspected", "inspect-failed", "recover", "pin", "unpin", "prefetch",
		"pages-free", "no-pages", "loaded", "load-failed", "chosen", "evicted", "delete"}[e]
}

// Tier is where an adapter is read from: the nearest tier that has it.
type Tier int

// Tiers.
const (
	Disk Tier = iota
	DRAM
	GPU
)

func (t Tier) String() string { return [...]string{"disk", "dram", "gpu"}[t] }
