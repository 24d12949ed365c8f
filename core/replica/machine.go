package replica

import (
	"slices"
	"time"

	"troupe/core/batch"
	"troupe/core/kv"
	"troupe/core/lora"
)

// Config is fixed for the life of a machine.
type Config struct {
	Name, Model  string
	Incarnation  uint64 // of the actor; names its pins
	BlockTokens  int
	LeastBlocks  int // that the operator wants; 0: as many as the device gives
	MaxSequences int
	MaxWaiting   int
	StepTokens   int
	Revision     string // digest of the files to serve; empty: any
	Confirmed    string // revision that the deployment confirmed to an earlier incarnation
	MaxAdapters  int    // 0: sequences with adapters are refused
	Router       bool   // blocks are announced to a router
	CheckFolder  bool   // the model folder is checked
}

// Model is what the device loaded.
type Model struct {
	Adopted        bool // an earlier incarnation had loaded it
	Lease          string
	Blocks         int    // of KV memory
	BlockBytes     uint64 // of one of them
	ContextTokens  int
	RevisionDigest string // empty: unknown
	WeightsDigest  string
	AdapterPages   int
}

// Adapter is the adapter that a sequence or the operator wants. The zero value means none.
type Adapter struct {
	Requested string // name in the request
	Name, Key string // of the spec
	Base      string // digest of the weights that it was registered for; empty: unknown
	HasPath   bool
	Given     bool // there is a spec
}

// Submission is a sequence that a session submits.
type Submission struct {
	batch.Request
	Adapter  Adapter
	Revision string // that computed the output
}

// Machine decides what a replica does. It is not safe for concurrent use.
type Machine struct {
	cfg    Config
	state  State
	step   StepState
	memory MemoryState
	lease  PoolState

	model         Model
	confirmed     string // revision that the deployment confirmed
	foundRevision string // in Failed: the revision in the folder, if it is not the requested one
	folderFault   string // empty: none
	drain         bool   // Drained is awaited
	reporting     bool   // the report timer is set

	batch     *batch.Scheduler // nil until the blocks are adopted
	pool      *kv.Pool
	sequences map[string]*sequence // by request id
	context   int                  // context limit in tokens

	current  inflight
	isolated []batch.Entry // entries of a step that crashed twice, to be run alone
	steps    uint64
	lastStep time.Time // start of the last step
	shrink   shrink

	announcer     *kv.Announcer // block changes that routers have not received
	announced     time.Time     // last announcement
	lastNotFinite string        // model or adapter, and when

	pins        *lora.PinClient // nil: the replica takes no adapters
	failedPins  map[string]string
	offers      int  // migrations that wait for a step to end or for an adapter
	adapterTick bool // the adapter timer is set

	totals  Totals
	effects []Effect
	spare   [][]Effect // recycled lists
	raised  []event
}

// sequence is a sequence that a session has here.
type sequence struct {
	base    int // tokens of output that the session submitted
	cached  int // prompt tokens found in KV blocks
	adapter string
}

// inflight is the step that the engine runs.
type inflight struct {
	entries []batch.Entry
	step    uint64
	prompt  uint64 // number of prompt tokens
	began   time.Time
}

// shrink is the last shrink of the KV memory.
type shrink struct {
	blocks  int
	attempt uint64
}

// Totals counts what an incarnation did.
type Totals struct {
	TokensIn, TokensOut, TokensCached, Preemptions, MigratedIn, MigratedOut, NotFinite uint64
}

// event is one event. Only the fields of its kind are set.
type event struct {
	kind       Event
	now        time.Time
	id         string // of a request, or a digest, a lease, a fault
	n          int
	number     uint64 // of a step, or an attempt
	model      *Model
	resident   []kv.Committed
	refusal    Refusal
	submission *Submission
	entries    []batch.Entry
	preempted  []batch.Preemption
	sampled    []uint32
	notFinite  []int
}

// New returns a machine in state Created.
func New(cfg Config) *Machine {
	return &Machine{cfg: cfg, confirmed: cfg.Confirmed, sequences: make(map[string]*sequence)}
}

// State returns the state of the life cycle.
func (m *Machine) State() State { return m.state }

// Batch returns the scheduler, and Pool its blocks; nil until the blocks are adopted. Migrations,
// restores, and offloads use them between events. Blocks are allocated only while Stepping is
// false.
func (m *Machine) Batch() *batch.Scheduler { return m.batch }

// Pool returns the KV blocks; see Batch.
func (m *Machine) Pool() *kv.Pool { return m.pool }

// Model returns what the device loaded.
func (m *Machine) Model() Model { return m.model }

// Context returns the context limit in tokens.
func (m *Machine) Context() int { return m.context }

// Steps returns the number of steps that were started.
func (m *Machine) Steps() uint64 { return m.steps }

// Ready reports whether the engine is ready.
func (m *Machine) Ready() bool { return m.step != Halted }

// Stepping reports whether a step is in flight, or isolated entries are still to run.
func (m *Machine) Stepping() bool { return m.step > Idle }

// InFlight reports whether a step is in flight.
func (m *Machine) InFlight() bool { return m.step > Idle && m.step != Isolating }

// InStep reports whether a sequence is in the step in flight or in an isolated one to come.
func (m *Machine) InStep(id string) bool {
	holds := func(entries []batch.Entry) bool {
		return slices.ContainsFunc(entries, func(e batch.Entry) bool { return e.ID == id })
	}
	return m.InFlight() && holds(m.current.entries) || holds(m.isolated)
}

// MayPlan reports whether the next step may be planned.
func (m *Machine) MayPlan() bool { return m.step == Idle && m.memory != Shrunk }

// Has reports whether a session has a sequence here.
func (m *Machine) Has(id string) bool { return m.sequences[id] != nil }

func (m *Machine) add(effects ...Effect) {
	if n := len(m.spare); m.effects == nil && n > 0 {
		m.effects, m.spare = m.spare[n-1], m.spare[:n-1]
	}
	m.effects = append(m.effects, effects...)
}

// Recycle takes back a list of effects that was carried out. A machine whose lists are recycled
// allocates none per step.
func (m *Machine) Recycle(effects []Effect) {
	if cap(effects) > 0 {
		clear(effects)
		m.spare = append(m.spare, effects[:0])
	}
}

// raise hands a table an event that follows from the current one.
func (m *Machine) raise(e event) { m.raised = append(m.raised, e) }

// take returns the effects so far.
func (m *Machine) take() []Effect {
	effects := m.effects
	m.effects = nil
	return effects
}

// MaxAdapters returns the number of adapters that the replica takes.
func (m *Machine) MaxAdapters() int { return m.cfg.MaxAdapters }
