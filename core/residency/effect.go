package residency

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// Effects.
type (
	// Load fills the leased memory of a copy. The caller reports Machine.Loaded or LoadFailed.
	Load struct {
		Copy   uint64
		Source Source
	}

	// Release frees the memory of a copy. With Park, the weights are first copied to the host cache. If that fails,
	// they are freed anyway, or kept with OrKeep. The caller reports Machine.Released or ReleaseFailed.
	Release struct {
		Copy         uint64
		Park, OrKeep bool
	}

	// Revoke makes the readers of a copy end, each after the part that it copies. The caller reports
	// Machine.ReadEnded for each reader that has ended, whether or not it was revoked.
	Revoke struct {
		Copy uint64
		Why  string
	}

	// Ready reports that the weights of a lease are on the device, in the given copy.
	Ready struct {
		Lease string
		Copy  uint64
	}

	// Failed reports that the load that a lease waited for has failed. The lease is no longer a
	// user.
	Failed struct{ Lease string }
)

// Notices, for logs and events.
type (
	// Merged reports that a copy was released because the device already had its content.
	Merged struct{ Copy, Into uint64 }

	// Evicted reports that an unused copy is released.
	Evicted struct {
		Copy uint64
		Why  string
	}

	// Ignored reports an event that changed nothing.
	Ignored struct {
		Copy  uint64
		Event Event
		State State
		Why   string
	}
)

func (Load) isEffect()    {}
func (Release) isEffect() {}
func (Revoke) isEffect()  {}
func (Ready) isEffect()   {}
func (Failed) isEffect()  {}
func (Merged) isEffect()  {}
func (Evicted) isEffect() {}
func (Ignored) isEffect() {}
