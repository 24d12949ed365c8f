package hostcache

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// Effects.
type (
	// Reserve takes the memory of an image. The caller fills it and reports Filled or Failed.
	Reserve struct {
		Key   Key
		Bytes int64
	}

	// Free returns the memory of an image.
	Free struct {
		Key Key
		Why string
	}

	// Rename gives an image the key of its content.
	Rename struct{ Key, As Key }

	// Refuse answers a Fill for which no room can be made.
	Refuse struct {
		Key   Key
		Bytes int64
		Usage Usage
	}

	// Attach gives an image a name, which no other image has any longer.
	Attach struct {
		Key  Key
		Name Name
	}

	// Proceed answers an Await: the image is no longer being filled.
	Proceed struct{ Waiter string }

	// Ignored reports an event that changes nothing.
	Ignored struct {
		Key   Key
		State State
		Event Event
		Why   string
	}
)

func (Reserve) isEffect() {}
func (Free) isEffect()    {}
func (Rename) isEffect()  {}
func (Refuse) isEffect()  {}
func (Attach) isEffect()  {}
func (Proceed) isEffect() {}
func (Ignored) isEffect() {}
