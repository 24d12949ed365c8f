package router

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"troupe/core/backend"
	"troupe/core/schedule"
	"troupe/core/wake"
)

// parked is the name of the level at which a model has no replicas.
const parked = "parked"

// Reason is the reason for a refusal. Its values are those of the reasons in messages. The machine
// uses only the constants below, and passes on other values unchanged.
type Reason int32

// Reasons.
const (
	None          Reason = 0
	NotFound      Reason = 2
	NoMemory      Reason = 5
	QueueFull     Reason = 6
	NotReady      Reason = 7
	Deadline      Reason = 11
	Unsupported   Reason = 15
	WeightsDiffer Reason = 22
	Preempted     Reason = 29
	Stopped       Reason = 32
)

// Refusal says why no replica serves a request. The zero value means that there is no refusal.
type Refusal struct {
	Reason     Reason
	Detail     string
	RetryAfter time.Duration // 0: not known
	Memory     Memory        // missing memory, of a deployment that failed for lack of it
}

// Memory describes a lack of memory, in bytes.
type Memory struct {
	Model                       string // folder of the model; empty: the sizes are not set
	Bytes, Used, Total, Reserve uint64
	Evictable                   uint64 // of weights that no replica uses; they are not in Used
	Room                        *Room  // nil: no models would make room by leaving
}

// Room is how an operator makes room on a device.
type Room struct {
	Device string
	Leave  []Holder
}

// Holder is a model that would leave a device.
type Holder struct {
	Model    string
	Replicas []string
	Bytes    uint64
	Command  string // that makes it leave
}

// Deployment reports whether a deployment is stored or its status is known. If neither, it also
// returns the refusal for a query.
func (m *Machine) Deployment(name string) (Refusal, bool) {
	_, stored := m.stored[name]
	_, reported := m.statuses[name]
	if stored || reported {
		return Refusal{}, true
	}
	refusal, _ := m.unserved(Request{Model: name})
	return refusal, false
}

// unserved returns the refusal of a request that no replica serves, or reports that it waits until one does.
// NotReady is temporary. All other reasons are final, as far as the router knows. A request that has begun
// waits, unless the model is stopped, or it or each of its replicas is parked: then no replica is left that could
// continue it.
// Replicas on standby finish it if it has output. A request for a model that an operator keeps from serving
// wakes it, if the deployment allows that and the command came before the request.
func (m *Machine) unserved(r Request) (why Refusal, waits bool) {
	stored, ok := m.stored[r.Model]
	failure := m.statuses[r.Model].Failure
	level := m.dormant(stored)
	switch {
	case m.phase == Starting:
		return Refusal{Reason: NotReady, Detail: "this node is starting", RetryAfter: routeRetryAfter}, false
	case !ok:
		return Refusal{Reason: NotFound, Detail: fmt.Sprintf("model %q is not deployed; there are: %s", r.Model,
			strings.Join(sorted(m.stored), ", "))}, false
	case r.Revision != "" && !stored.Engine.Capabilities().Has(backend.Resume):
		return Refusal{Reason: Unsupported, Detail: fmt.Sprintf("the replica of model %s that served the request "+
			"is gone, and %s; send the request again", r.Model,
			backend.Missing(stored.Engine.Kind, backend.Resume))}, false
	case r.Adapter != "" && !stored.Engine.Capabilities().Has(backend.Adapters):
		return Refusal{Reason: Unsupported, Detail: fmt.Sprintf("model %s cannot serve adapter %s: %s", r.Model,
			r.Adapter, backend.Missing(stored.Engine.Kind, backend.Adapters))}, false
	case stored.Rest == schedule.Stopped && level == "":
		return Refusal{Reason: Stopped, Detail: fmt.Sprintf(
			`model %s is stopped (0 replicas); models.scale {"name": %q, "replicas": 1} starts it`, r.Model, r.Model,
		)}, false
	case level != "" && (r.Wait || stored.Wakes && !r.held):
		return Refusal{}, true
	case level != "" && (!r.Begun || level == parked || stored.Rest == schedule.Stopped):
		return Refusal{Reason: Stopped, Detail: fmt.Sprintf(
			`model %s is at level %s; models.activate {"name": %q} makes it serve`, r.Model, level, r.Model)}, false
	case stored.Preempted && !r.Wait:
		return Refusal{Reason: Preempted, Detail: fmt.Sprintf(
			"all replicas of model %s were preempted; "+
				`models.scale {"name": %q, "replicas": 1} starts it`, r.Model, r.Model),
			RetryAfter: routeRetryAfter}, false
	case failure == Refusal{}, r.Wait && failure.Reason == NoMemory:
		return Refusal{}, true
	}
	return failure, false
}

// noPlace returns the refusal of a request that may not wait, or not any longer.
func noPlace(r wake.Request, why wake.Reason) Refusal {
	if why == wake.Full {
		return Refusal{
			Reason: QueueFull, RetryAfter: queueRetryAfter,
			Detail: fmt.Sprintf("model %s does not serve yet, and no more requests may wait for it on this node; "+
				"at most %d may, with 64 MiB of prompts for all models", r.Model, r.Limit),
		}
	}
	return Refusal{
		Reason: Deadline,
		Detail: "the request's time is up, and model " + r.Model + " does not serve yet; raise its timeout",
	}
}

// dormant returns the level at which an operator keeps all replicas of a model from serving; empty: some
// are to serve. A replica that is to serve may be gone for good,
// or only restart: then the status of the deployment decides.
func (m *Machine) dormant(s Stored) string {
	if s.Level == "" && len(s.Levels) == 0 {
		return ""
	}
	if t := m.models[s.Name]; t != nil {
		for replica := range t.replicas {
			if s.levelOf(replica) == "" {
				return ""
			}
		}
	}
	if s.Level != "" && !slices.Contains(slices.Collect(maps.Values(s.Levels)), "") {
		return s.Level
	}
	return m.statuses[s.Name].Level
}

// levelOf returns the wanted level of a replica; empty: active.
func (s Stored) levelOf(replica string) string {
	if level, ok := s.Levels[replica]; ok {
		return level
	}
	return s.Level
}

// notServed is why a request waits. If replicas are faulty, their steps may end, or they are replaced.
func notServed(model string, faulty int) Refusal {
	why := Refusal{Reason: NotReady, Detail: "no replica of model " + model + " serves yet; the request waits"}
	if faulty > 0 {
		why.Detail = fmt.Sprintf("no replica of model %s serves, and %d of them are faulty: a step hangs, or an "+
			"answer was wrong; replicas.list says which, and the deployment replaces them; the request waits",
			model, faulty)
	}
	return why
}

func weightsReplaced(model string) Refusal {
	return Refusal{
		Reason: WeightsDiffer,
		Detail: "the weights of model " + model + " were replaced while the request ran; send it again",
	}
}
