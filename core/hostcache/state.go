package hostcache

// State is the state of an image.
type State uint8

// States.
const (
	Absent  State = iota // not in host memory
	Filling              // its memory is reserved, and its content is on the way
	Ready                // devices may load it
	Revoked              // its content is damaged or outdated, and something still uses its memory
)

func (s State) String() string { return [...]string{"absent", "filling", "ready", "revoked"}[s] }

// Event is a kind of event. Each is a method of Machine.
type Event uint8

// Events.
const (
	evFill Event = iota
	evFilled
	evFailed
	evOpen
	evClose
	evPin
	evUnpin
	evRevoke
	evRecovered
	evAwait
	evName
	evForget
)

func (e Event) String() string {
	return [...]string{"fill", "filled", "failed", "open", "close", "pin", "unpin", "revoke", "recovered", "await",
		"name", "forget"}[e]
}

// Key names the content of an image and its layout.
type Key struct {
	Digest string // of the files
	Layout string // of the device
}

// Name names the image of an adapter before its content is known. An image may have several names: of
// adapters with the same content.
type Name struct {
	Model   string // the deployment
	Adapter string // with its revision
	Layout  string // of the device and the base model
}

// Image describes an image that is not absent.
type Image struct {
	Key
	Bytes   int64
	State   State
	Readers int
	Pinned  bool
	Names   []Name // in order; none: an image of weights
}

// Usage is how the memory of the cache is used, in bytes.
type Usage struct {
	Budget int64
	Used   int64 // of all images
	Pinned int64 // of Used: pinned and neither in use nor being filled
	InUse  int64 // of Used: being read, filled, or revoked
}
