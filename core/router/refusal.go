package router

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// standby is the name of the level at which a model keeps its replicas.
const standby = "standby"

// Reason is the reason for a refusal. Its values are those of the reasons in messages. The machine
// uses only the constants below, and passes on other values unchanged.
type Reason int32

// Reasons.
const (
	None          Reason = 0
	NotFound      Reason = 2
	NotReady      Reason = 7
	WeightsDiffer Reason = 22
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
}

// Deployment reports whether a deployment is stored or its status is known. If neither, it also
// returns the refusal for a query.
func (m *Machine) Deployment(name string) (Refusal, bool) {
	_, stored := m.stored[name]
	_, reported := m.statuses[name]
	if stored || reported {
		return Refusal{}, true
	}
	return m.refusal(name, false), false
}

// refusal returns the refusal of a request that no replica serves. NotReady is temporary. All other
// reasons are final, as far as the router knows. A request that has begun waits for a replica on
// standby, which finishes it.
func (m *Machine) refusal(model string, begun bool) Refusal {
	stored, ok := m.stored[model]
	switch failure := m.statuses[model].Failure; {
	case m.phase == Starting:
		return Refusal{Reason: NotReady, Detail: "this node is starting", RetryAfter: routeRetryAfter}
	case !ok:
		return Refusal{Reason: NotFound, Detail: fmt.Sprintf("model %q is not deployed; there are: %s", model,
			strings.Join(sorted(m.stored), ", "))}
	case stored.Stopped:
		return Refusal{Reason: Stopped, Detail: fmt.Sprintf(
			`model %s is stopped (0 replicas); models.scale {"name": %q, "replicas": 1} starts it`, model, model)}
	case m.dormant(stored) != "" && !(begun && m.dormant(stored) == standby):
		return Refusal{Reason: Stopped, Detail: fmt.Sprintf(
			`model %s is at level %s; models.activate {"name": %q} makes it serve`, model, m.dormant(stored), model)}
	case failure != Refusal{}:
		return failure
	}
	return Refusal{Reason: NotReady, Detail: "model " + model + " is starting", RetryAfter: routeRetryAfter}
}

// dormant returns the level at which an operator keeps all replicas of a model from serving; empty: some
// are to serve. A request for such a model is refused. A replica that is to serve may be gone for good,
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

// allFaulty is temporary: the steps of faulty replicas may end, or the replicas are replaced.
func allFaulty(model string, n int) Refusal {
	return Refusal{Reason: NotReady, RetryAfter: routeRetryAfter, Detail: fmt.Sprintf(
		"no replica of model %s serves, and %d of them are faulty: a step hangs, or an answer was wrong; "+
			"replicas.list says which, and the deployment replaces them", model, n)}
}

func weightsReplaced(model string) Refusal {
	return Refusal{
		Reason: WeightsDiffer,
		Detail: "the weights of model " + model + " were replaced while the request ran; send it again",
	}
}
