package replica

import (
	"slices"
	"time"

	"troupe/core/batch"
	"troupe/core/kv"
	"troupe/core/lora"
	"troupe/core/utilization"
)

// Config is fixed for the life of a machine.
type Config struct {
	Name, Model  string
	Incarnation  uint64 // of the actor; part of the names of its pins
	BlockTokens  int
	LeastBlocks  int // minimum number set by the operator; 0: as many as the device gives
	MaxSequences int
	MaxWaiting   int
	StepTokens   int
	Revision     string  // digest of the files to serve; empty: any
	Confirmed    string  // revision that the deployment confirmed to an earlier incarnation
	MaxAdapters  int     // 0: sequences with adapters are refused
	Router       bool    // blocks are announced to a router
	CheckFolder  bool    // the model folder is checked
	Standby      bool    // it is to be on standby once it has started
	Weight       float64 // of its turns; 0 counts as 1
	Watch        Watch
	Canary       Canary // of an earlier incarnation
}

// Model is what the device loaded.
type Model struct {
	Adopted        bool // an earlier incarnation loaded the model
	Lease          string
	Handle         string // opens the memory of the lease
	Blocks         int    // number of KV blocks
	BlockBytes     uint64 // size of one KV block
	ContextTokens  int
	RevisionDigest string // empty: unknown
	WeightsDigest  string
	AdapterPages   int
	Canary         Answer // that the weights must give; without tokens: not recorded
}

// Adapter is the adapter that a sequence or the operator requests. The zero value means none.
type Adapter struct {
	Requested string // name as requested
	Name, Key string // name and key in the spec
	Base      string // digest of the weights that the adapter was registered for; empty: unknown
	HasPath   bool
	Given     bool // the request has a spec
}

// Submission is a sequence that a session submits.
type Submission struct {
	batch.Request
	Adapter  Adapter
	Revision string // revision that computed the output
}

// Machine decides what a replica does. It is not safe for concurrent use.
type Machine struct {
	cfg       Config
	state     State
	step      StepState
	memory    MemoryState
	lease     PoolState
	turnState TurnState
	fault     FaultState

	model         Model
	confirmed     string // revision that the deployment confirmed
	foundRevision string // in Failed: the revision found in the folder, if it is not the requested one
	folder        Folder // as last checked
	engine        Engine // zero before it is ready
	standby       bool   // the wanted level is standby, else active
	drain         bool   // a drain command has not been answered
	departures    Departures
	save          saving
	reporting     bool // the report timer is set

	batch     *batch.Scheduler // nil until the blocks are adopted
	pool      *kv.Pool
	sequences map[string]*sequence // by request id
	context   int                  // context limit in tokens

	current   inflight
	isolated  []batch.Entry // entries of a step that crashed twice; each is run alone
	steps     uint64
	lastStep  time.Time // start of the last step
	turn      turn
	times     stepTimes
	turnCause event // of turnEvent, reused
	shrink    shrink

	pace       pace
	watchDue   time.Time // when the timer of the watch fires
	cause      Fault     // set while the replica is faulty
	canary     Canary
	lastCanary time.Time
	check      check // after standby

	canaryToken int           // number of canaries that gave a recorded token, apart from checks
	canaryIndex int           // of the recorded token that the canary in flight computes
	canaryTook  time.Duration // of the step of the last canary

	ahead []string // keys of the adapters that the planner wants loaded ahead

	announcer     *kv.Announcer // block changes that routers have not received
	announced     time.Time     // time of the last announcement
	lastNotFinite string        // model or adapter of the last sequence with non-finite logits, and the time

	pins        *lora.PinClient // nil: the replica takes no adapters
	failedPins  map[string]string
	offers      int  // number of migrations that wait for the end of a step or for an adapter
	adapterTick bool // the adapter timer is set

	totals  Totals
	effects []Effect
	spare   [][]Effect // recycled effect lists
	raised  []event
}

// sequence is a sequence that a session has on this replica.
type sequence struct {
	base    int // number of output tokens that the session submitted
	cached  int // number of prompt tokens found in KV blocks
	adapter string
	last    time.Time // when its last token was computed here; zero: none was
}

// inflight is the step that the engine runs.
type inflight struct {
	entries []batch.Entry
	step    uint64
	prompt  uint64 // number of prompt tokens
	began   time.Time
	stalled time.Duration // of the time since began, how long this process stalled
	work    utilization.Work
	least   time.Duration // for the work
}

// shrink is the last command to shrink the KV memory.
type shrink struct {
	blocks  int
	attempt uint64
}

// Totals counts the work of one incarnation.
type Totals struct {
	TokensIn, TokensOut, TokensCached, Preemptions, MigratedIn, MigratedOut, NotFinite uint64
	Turns, HungSteps, CanaryFailures, Verified                                         uint64
	Use                                                                                utilization.Counters
}

// event is one event. Only the fields of its kind are set.
type event struct {
	kind       Event
	now        time.Time
	id         string // a request id, a digest, a lease or a fault
	folder     Folder
	n          int
	number     uint64 // of a step or an attempt
	capture    Capture
	model      *Model
	resident   []kv.Committed
	refusal    Refusal
	submission *Submission
	entries    []batch.Entry
	preempted  []batch.Preemption
	sampled    []uint32
	notFinite  []int
	open       bool
}

// New returns a machine in state Created.
func New(cfg Config) *Machine {
	return &Machine{cfg: cfg, confirmed: cfg.Confirmed, standby: cfg.Standby, canary: cfg.Canary,
		sequences: make(map[string]*sequence)}
}

// State returns the state of the life cycle.
func (m *Machine) State() State { return m.state }

// Batch returns the scheduler; nil until the blocks are adopted. Migrations, restores and offloads
// use the scheduler and its pool between events. They allocate blocks only while Stepping is false.
func (m *Machine) Batch() *batch.Scheduler { return m.batch }

// Pool returns the KV blocks; see Batch.
func (m *Machine) Pool() *kv.Pool { return m.pool }

// Model returns what the device loaded.
func (m *Machine) Model() Model { return m.model }

// Context returns the context limit in tokens.
func (m *Machine) Context() int { return m.context }

// Steps returns the number of steps started.
func (m *Machine) Steps() uint64 { return m.steps }

// Ready reports whether the engine is ready.
func (m *Machine) Ready() bool { return m.step != Halted }

// Stepping reports whether a step is in flight or isolated entries have yet to run.
func (m *Machine) Stepping() bool { return m.step > Idle }

// InFlight reports whether a step is in flight.
func (m *Machine) InFlight() bool { return m.step > Idle && m.step != Isolating }

// InStep reports whether a sequence is part of the step in flight or of an isolated entry that has
// yet to run.
func (m *Machine) InStep(id string) bool {
	holds := func(entries []batch.Entry) bool {
		return slices.ContainsFunc(entries, func(e batch.Entry) bool { return e.ID == id })
	}
	return m.InFlight() && holds(m.current.entries) || holds(m.isolated)
}

// MayPlan reports whether the next step may be planned.
func (m *Machine) MayPlan() bool { return m.step == Idle && m.memory != Shrunk }

// Has reports whether a session has the sequence on this replica.
func (m *Machine) Has(id string) bool { return m.sequences[id] != nil }

func (m *Machine) add(effects ...Effect) {
	if n := len(m.spare); m.effects == nil && n > 0 {
		m.effects, m.spare = m.spare[n-1], m.spare[:n-1]
	}
	m.effects = append(m.effects, effects...)
}

// Recycle takes back a list of effects that was carried out. A machine whose lists are recycled
// allocates no list per step.
func (m *Machine) Recycle(effects []Effect) {
	if cap(effects) > 0 {
		clear(effects)
		m.spare = append(m.spare, effects[:0])
	}
}

// raise queues an event that the current event causes.
func (m *Machine) raise(e event) { m.raised = append(m.raised, e) }

// take returns the effects so far.
func (m *Machine) take() []Effect {
	effects := m.effects
	m.effects = nil
	return effects
}

// MaxAdapters returns the maximum number of adapters in a batch.
func (m *Machine) MaxAdapters() int { return m.cfg.MaxAdapters }
