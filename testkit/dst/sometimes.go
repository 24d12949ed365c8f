package dst

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/table"
	"troupe/gateway/openai"
	"troupe/messages"
)

// Sight is something that can happen in a run: a row of a transition table that applies, a state
// that is entered, a refusal with some reason, or an error of HTTP.
type Sight struct {
	Name string // unique
	Seen bool   // in this process
}

// Sights lists what can happen, sorted by name: all rows and states of the tables that are linked
// into this program, all reasons, and the errors that the gateway has for them. Runs share it, since
// it is known per process.
func Sights() (all []Sight) {
	keepReached()
	earlier.Lock()
	for _, r := range table.Reached() {
		for _, l := range r.Lines {
			name := r.Table + ": " + l.String()
			all = append(all, Sight{name, earlier.seen[name]})
		}
		for _, s := range r.States {
			name := r.Table + ": state " + s.Name
			all = append(all, Sight{name, earlier.seen[name]})
		}
	}
	earlier.Unlock()
	for _, name := range httpErrors() {
		all = append(all, Sight{name, earlier.has(name)})
	}
	for value, name := range messages.Reason_name {
		if value != 0 {
			all = append(all, Sight{"refusal: " + strings.TrimPrefix(name, "REASON_"), refused[value].Load()})
		}
	}
	slices.SortStableFunc(all, func(a, b Sight) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// earlier has what was reached before the last call of keepReached.
var earlier = reached{seen: make(map[string]bool)}

// reached has the names of what was reached.
type reached struct {
	sync.Mutex
	seen map[string]bool
}

// httpErrors returns the names of the errors with which the gateway refuses a request: those for each reason, the
// one for an API key, and the one for a body that arrives too slowly.
func httpErrors() (all []string) {
	slow, key := openai.Invalid("", ""), openai.Invalid("", "")
	slow.Status, key.Status, key.Code = http.StatusRequestTimeout, http.StatusUnauthorized, new("invalid_api_key")
	errors := []*openai.Error{slow, key}
	for value := range messages.Reason_name {
		if value != 0 {
			errors = append(errors, openai.Refusal(messages.Reason(value), ""))
		}
	}
	for _, e := range errors {
		code := ""
		if e.Code != nil {
			code = *e.Code
		}
		all = append(all, httpError(e.Status, code))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// httpError returns the name of an error with a status and a code, which may be empty.
func httpError(status int, code string) string {
	return strings.TrimSpace(fmt.Sprintf("HTTP error: %d %s", status, code))
}

// has reports whether something was reached.
func (r *reached) has(name string) bool {
	r.Lock()
	defer r.Unlock()
	return r.seen[name]
}

// add records that something was reached.
func (r *reached) add(name string) {
	r.Lock()
	defer r.Unlock()
	r.seen[name] = true
}

// keepReached keeps what tables have reached since its last call, and returns the transitions: the rows
// with each state in which they have applied.
func keepReached() (transitions []string) {
	earlier.Lock()
	defer earlier.Unlock()
	for _, r := range table.Reached() {
		for _, l := range r.Lines {
			if len(l.In) > 0 {
				earlier.seen[r.Table+": "+l.String()] = true
			}
			for _, state := range l.In {
				transitions = append(transitions, transition(r.Table, state, l))
			}
		}
		for _, s := range r.States {
			earlier.seen[r.Table+": state "+s.Name] = earlier.seen[r.Table+": state "+s.Name] || s.Reached
		}
	}
	table.Forget()
	return transitions
}

func transition(name, state string, l table.Line) string {
	l.From = []string{state}
	return name + ": " + l.String()
}

// Transitions lists the rows of all tables with each state in which they can apply.
func Transitions() map[string]bool {
	all := make(map[string]bool)
	for _, r := range table.Reached() {
		for _, l := range r.Lines {
			for _, state := range l.From {
				all[transition(r.Table, state, l)] = true
			}
		}
	}
	return all
}

// refused has the reasons of the refusals that actors have received.
var refused [64]atomic.Bool

// see notes the refusal that a message contains, if any.
func see(envelope any) {
	_, message, _ := actor.UnwrapEnvelope(envelope)
	r, ok := message.(*messages.Refused)
	if answer, is := message.(interface{ GetRefused() *messages.Refused }); !ok && is {
		r = answer.GetRefused()
	}
	if r != nil {
		refused[r.GetReason()].Store(true)
	}
}
