package deployment

import (
	"time"

	"troupe/core/schedule"
)

// Reason is the reason for a failure. Its values are those of the reasons in messages. The machine
// knows only the constants below, and passes on other values.
type Reason int32

const (
	NoMemory     Reason = 5
	LoadFailed   Reason = 9
	EngineFailed Reason = 10
	Unsupported  Reason = 15
	Quarantined  Reason = 20
	FilesDiffer  Reason = 22
)

// Failure is the reason why a replica or the deployment does not serve.
type Failure struct {
	Reason     Reason
	Detail     string
	RetryAfter time.Duration // 0: not known
	Memory     Memory        // with NoMemory

	unplaced  bool // no GPU had room
	later     bool // with unplaced: there may be room soon
	elsewhere bool // a replica kept exiting on a GPU; another one may have room
}

// Memory describes a lack of memory, in bytes.
type Memory struct {
	Model                       string // the model's folder; empty: the sizes are not set
	Bytes, Used, Total, Reserve int64
	Evictable                   int64 // of weights that no replica uses; they are not in Used
	Room                        *Room // nil: no models would make room by leaving
}

// Room is how an operator makes room on a GPU.
type Room struct {
	At    Location
	Leave []schedule.Holder // models that would leave
}

// on adds the node to a load failure, because the model's files may be missing on that node only.
func (f Failure) on(node string) Failure {
	if f.Reason == LoadFailed {
		f.Detail = "node " + node + ": " + f.Detail
	}
	return f
}

// fail records a failure, and reports it unless it repeats the last one.
func (d *Deployment) fail(f Failure) {
	if d.failure == nil || d.failure.Detail != f.Detail {
		d.emit(Failed{f})
	}
	d.failure = &f
}
