package verify

import (
	"maps"
	"slices"
)

// RecordState is what a node knows of a record.
type RecordState uint8

// States of a record.
const (
	Unknown RecordState = iota // nothing is recorded
	Local                      // recorded by this node, and not seen in the store yet
	InStore                    // as the store has it
	Damaged                    // the store has a value that cannot be read
)

func (s RecordState) String() string { return [...]string{"unknown", "local", "stored", "damaged"}[s] }

// RecordEvent is a kind of event of a record.
type RecordEvent uint8

// Events of a record.
const (
	evRecorded RecordEvent = iota
	evStored
	evUnreadable
	evDeleted
	evRetry
)

func (e RecordEvent) String() string {
	return [...]string{"recorded", "stored", "unreadable", "deleted", "retry"}[e]
}

// Records are the records that a node knows. The store makes nodes agree: the first record that is stored
// for a key counts. Records is not safe for concurrent use.
type Records struct {
	all     map[string]*known // by the name of the key
	effects []Effect
}

type known struct {
	name   string
	state  RecordState
	record Record
}

type recordEvent struct {
	kind   RecordEvent
	record Record
	why    string
}

// NewRecords returns records of which none is known.
func NewRecords() *Records { return &Records{all: make(map[string]*known)} }

// Find returns the record of a key, by its name.
func (r *Records) Find(name string) (Record, bool) {
	k := r.all[name]
	if k == nil || k.state == Damaged {
		return Record{}, false
	}
	return k.record, true
}

// Recorded notes the tokens of the first load.
func (r *Records) Recorded(name string, record Record) []Effect {
	return r.handle(name, recordEvent{kind: evRecorded, record: record})
}

// Stored reports what the store has.
func (r *Records) Stored(name string, record Record) []Effect {
	return r.handle(name, recordEvent{kind: evStored, record: record})
}

// Unreadable reports that the store has a value that cannot be read.
func (r *Records) Unreadable(name, why string) []Effect {
	return r.handle(name, recordEvent{kind: evUnreadable, why: why})
}

// Deleted reports that the store no longer has a record.
func (r *Records) Deleted(name string) []Effect { return r.handle(name, recordEvent{kind: evDeleted}) }

// Retry stores the records again that are not seen in the store yet.
func (r *Records) Retry() (all []Effect) {
	for _, name := range slices.Sorted(maps.Keys(r.all)) {
		if r.all[name].state == Local {
			all = append(all, r.handle(name, recordEvent{kind: evRetry})...)
		}
	}
	return all
}

// State returns what is known of a record.
func (r *Records) State(name string) RecordState {
	if k := r.all[name]; k != nil {
		return k.state
	}
	return Unknown
}

func (r *Records) handle(name string, e recordEvent) []Effect {
	k := r.all[name]
	if k == nil {
		k = &known{name: name}
	}
	row := recordRows.Find(k.state, e.kind, func(holds recordCondition) bool { return holds(r, k, e) })
	switch {
	case row == nil:
		return []Effect{Ignored{k.state.String(), e.kind.String(), "unexpected"}}
	case row.Do == nil:
		return []Effect{Ignored{k.state.String(), e.kind.String(), row.When.Name}}
	}
	row.Do(r, k, e)
	if row.To != recordSame {
		k.state = row.To
	}
	if r.all[name] = k; k.state == Unknown {
		delete(r.all, name)
	}
	effects := r.effects
	r.effects = nil
	return effects
}

func (r *Records) keep(k *known, e recordEvent) {
	k.record = e.record
	r.store(k, e)
}

func (r *Records) store(k *known, _ recordEvent) { r.emit(Store{k.name, k.record}) }

func (r *Records) replace(k *known, e recordEvent) {
	k.record = e.record
	r.emit(Replace{k.name, k.record})
}

func (r *Records) replaceKnown(k *known, e recordEvent) {
	r.damaged(k, e)
	r.emit(Replace{k.name, k.record})
}

func (r *Records) adopt(k *known, e recordEvent) { k.record = e.record }

func (r *Records) conflict(k *known, e recordEvent) {
	r.emit(Conflict{k.name, k.record, e.record})
	k.record = e.record
}

func (r *Records) damaged(k *known, e recordEvent) { r.emit(Unreadable{k.name, e.why}) }

func (r *Records) forget(*known, recordEvent) {}

func (r *Records) emit(e Effect) { r.effects = append(r.effects, e) }
