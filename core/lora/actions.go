package lora

// Action is an action for the pool's caller to carry out.
type Action interface{ isAction() }

// Inspect tells the caller to read the size of an adapter from its folder and to report with Inspected
// or InspectFailed.
type Inspect struct{ Adapter string }

// Load tells the caller to copy an adapter into these pages and to report with Loaded.
type Load struct {
	Adapter string
	Table   Table
}

// Evict tells the caller to wait until nothing reads an adapter's pages and then to report with
// Evicted.
type Evict struct{ Adapter string }

// Ready reports that the adapter a request waits for is on the device.
type Ready struct{ Request, Adapter string }

// Lost reports that a waiting request no longer holds an adapter.
type Lost struct {
	Request, Adapter string
	Refusal          *Refusal
}

func (Inspect) isAction() {}
func (Load) isAction()    {}
func (Evict) isAction()   {}
func (Ready) isAction()   {}
func (Lost) isAction()    {}

// Actions returns the actions since the last call, in order.
func (p *Pool) Actions() []Action {
	actions := p.actions
	p.actions = nil
	return actions
}

func (p *Pool) emit(a Action) { p.actions = append(p.actions, a) }
