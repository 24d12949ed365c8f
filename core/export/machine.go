package export

import (
	"fmt"
	"time"

	"troupe/core/kv"
)

const (
	maxExports = 8                // at a time; further ones are refused
	maxLease   = 10 * time.Second // longest lease, even if a longer one is requested
)

// Config describes the holder. It is fixed for the life of a machine.
type Config struct {
	Name        string // name of the holder in error details: "tier dram"
	NotReady    bool   // the holder has no blocks yet
	Unsupported string // why the holder cannot send blocks; empty if it can
	Own         *Own   // nil: the holder has blocks of all spaces and finds them by namespaced hash
	MaxBytes    int    // largest block that fits, if Own is nil
	RetryAfter  time.Duration
}

// Own describes the blocks of a holder that has blocks of one space and layout only.
type Own struct {
	Space  kv.Hash
	Bytes  int // size of a block
	Layout string
}

// Actor is the address of an actor; the zero value is none.
type Actor struct{ Address, ID string }

// Request is a LeaseBlocks request.
type Request struct {
	ID         string
	From       Actor
	Hashes     []kv.Hash // in prompt order, not namespaced
	Space      kv.Hash   // zero: missing or malformed
	BlockBytes uint64
	Within     time.Duration
	Malformed  string // why the request is invalid; empty if it is valid
}

// Machine decides what a holder exports. It is not safe for concurrent use.
type Machine struct {
	cfg     Config
	exports map[string]*export // by request id
	sent    uint64
	effects []Effect
}

// export is a lease that was not refused.
type export struct {
	state  State
	from   Actor
	within time.Duration
	blocks []int32 // locked
}

// event is one event. Only the fields of its kind are set.
type event struct {
	kind    Event
	id      string
	request Request
	blocks  []int32
	damaged []kv.Hash
	fault   string
}

// New returns a machine without exports.
func New(cfg Config) *Machine { return &Machine{cfg: cfg, exports: make(map[string]*export)} }

// State returns the state of an export.
func (m *Machine) State(id string) State {
	if e := m.exports[id]; e != nil {
		return e.state
	}
	return None
}

// Sent returns the total number of blocks sent.
func (m *Machine) Sent() uint64 { return m.sent }

// Lease requests blocks.
func (m *Machine) Lease(r Request) []Effect { return m.on(event{kind: Lease, id: r.ID, request: r}) }

// Locked reports the blocks that the holder has locked for Lock.
func (m *Machine) Locked(id string, blocks []int32) []Effect {
	return m.on(event{kind: Locked, id: id, blocks: blocks})
}

// Release reports that the requester has stopped waiting.
func (m *Machine) Release(id string) []Effect { return m.on(event{kind: Release, id: id}) }

// Ended reports the end of a Send: the blocks that were found damaged, and the error, or "" if all
// blocks were sent.
func (m *Machine) Ended(id string, damaged []kv.Hash, fault string) []Effect {
	return m.on(event{kind: Ended, id: id, damaged: damaged, fault: fault})
}

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }

func (m *Machine) refuse(r Request, why Reason, after time.Duration, detail string) {
	m.emit(Refuse{To: r.From, ID: r.ID, Reason: why, Detail: m.cfg.Name + " " + detail, RetryAfter: after})
}

func (m *Machine) refuseNotReady(e event) {
	m.refuse(e.request, NotReady, m.cfg.RetryAfter, "is not ready to send blocks")
}

func (m *Machine) refuseUnsupported(e event) {
	m.refuse(e.request, Unsupported, 0, "cannot send blocks: "+m.cfg.Unsupported)
}

func (m *Machine) refuseOther(e event) {
	m.refuse(e.request, Conflict, 0, "has other weights, or other KV blocks: "+m.cfg.Own.Layout)
}

func (m *Machine) refuseMalformed(e event) {
	why := e.request.Malformed
	if why == "" {
		why = "the space is missing"
	}
	m.refuse(e.request, Invalid, 0, "got an invalid request: "+why)
}

func (m *Machine) refuseLarge(e event) {
	m.refuse(e.request, Invalid, 0, fmt.Sprintf("has slots of %d bytes; blocks of %d bytes do not fit",
		m.cfg.MaxBytes, e.request.BlockBytes))
}

func (m *Machine) refuseMany(e event) {
	m.refuse(e.request, QueueFull, m.cfg.RetryAfter,
		"has reached its limit of concurrent exports; retry later, or compute the blocks")
}

func (m *Machine) lock(e event) {
	m.exports[e.id] = &export{from: e.request.From, within: min(e.request.Within, maxLease)}
	m.emit(Lock{e.request})
}

func (m *Machine) replaceRequester(e event) { m.exports[e.id].from = e.request.From }

func (m *Machine) send(e event) {
	x := m.exports[e.id]
	x.blocks = e.blocks
	m.emit(Send{ID: e.id, Blocks: e.blocks, Within: x.within})
}

func (m *Machine) cancel(e event) { m.emit(Cancel{e.id}) }

func (m *Machine) fail(e event) {
	x := m.exports[e.id]
	if len(e.damaged) > 0 {
		m.emit(Drop{e.damaged})
	}
	m.emit(Unlock{x.blocks})
	m.emit(Refuse{To: x.from, ID: e.id, Reason: Internal, Detail: m.cfg.Name + ": " + e.fault})
}

func (m *Machine) answer(e event) {
	x := m.exports[e.id]
	m.sent += uint64(len(x.blocks))
	m.emit(Unlock{x.blocks})
	m.emit(Answer{To: x.from, ID: e.id, Blocks: len(x.blocks)})
}
