package verify

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// Effects of a load.
type (
	// Compute runs a canary on the weights. The caller reports Load.Computed, or gives up the load if the
	// canary cannot run.
	Compute struct{}

	// Recorded gives the tokens of the first load to Records.
	Recorded struct{ Tokens []uint32 }

	// Accept lets the weights serve, and keeps the image that the load has filled.
	Accept struct{}

	// Drop frees the weights on the device, and the image that they came from or have filled.
	Drop struct{ Rejection }

	// Suspect keeps a source from being chosen again for the content until it changes.
	Suspect struct{ Rejection }

	// Next loads from the next source. The caller reports Load.Loaded or Load.Exhausted.
	Next struct{}

	// TestDevice asks for a self-test of the device.
	TestDevice struct{}

	// Fail ends the load: no source had weights that give the recorded tokens.
	Fail struct{ Rejections []Rejection }
)

// Effects of the records.
type (
	// Store stores a record if none is stored for its key. The caller reports Records.Stored once it
	// follows from the store which one is.
	Store struct {
		Name   string // of the key
		Record Record
	}

	// Replace stores a record in the place of one that is unreadable.
	Replace struct {
		Name   string // of the key
		Record Record
	}

	// Unreadable reports that a stored record cannot be read.
	Unreadable struct {
		Name string
		Why  string
	}

	// Conflict reports that another record than the known one is stored. The stored one counts.
	Conflict struct {
		Name          string
		Known, Stored Record
	}

	// Ignored reports an event that changes nothing.
	Ignored struct{ State, Event, Why string }
)

func (Compute) isEffect()    {}
func (Recorded) isEffect()   {}
func (Accept) isEffect()     {}
func (Drop) isEffect()       {}
func (Suspect) isEffect()    {}
func (Next) isEffect()       {}
func (TestDevice) isEffect() {}
func (Fail) isEffect()       {}
func (Store) isEffect()      {}
func (Replace) isEffect()    {}
func (Unreadable) isEffect() {}
func (Conflict) isEffect()   {}
func (Ignored) isEffect()    {}
