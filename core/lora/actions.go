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

// Grow tells the caller to request more pages, and to report with Granted or NotGranted.
type Grow struct{ Pages int }

// GiveBack tells the caller to give back these pages. No adapter is in them.
type GiveBack struct{ Pages []uint32 }

// Shrunk reports that the pool has no more pages than Shrink demanded.
type Shrunk struct{}

func (Inspect) isAction()  {}
func (Load) isAction()     {}
func (Evict) isAction()    {}
func (Ready) isAction()    {}
func (Lost) isAction()     {}
func (Grow) isAction()     {}
func (GiveBack) isAction() {}
func (Shrunk) isAction()   {}

// Actions returns the actions since the last call, in order.
func (p *Pool) Actions() []Action {
	actions := p.actions
	p.actions = nil
	return actions
}

func (p *Pool) emit(a Action) { p.actions = append(p.actions, a) }
