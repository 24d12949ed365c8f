package wake

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

type (
	// Confirm tells the session of a request that it waits.
	Confirm struct{ ID string }

	// Refuse refuses a request, which does not wait any longer.
	Refuse struct {
		Request Request
		Why     Reason
	}

	// Drop forgets a request without an answer: its session no longer asks for it.
	Drop struct{ ID string }

	// Wake tells the model's deployment how many requests wait.
	Wake struct {
		Model   string
		Waiting int
	}
)

// Reason is the reason for which a request may not wait.
type Reason uint8

const (
	Full           Reason = iota // too many requests, or too many bytes, wait
	DeadlinePassed               // its time is up
)

func (r Reason) String() string { return [...]string{"queue full", "deadline passed"}[r] }

func (Confirm) isEffect() {}
func (Refuse) isEffect()  {}
func (Drop) isEffect()    {}
func (Wake) isEffect()    {}
