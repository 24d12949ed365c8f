package replicaset

import (
	"fmt"

	"troupe/messages"
)

// Fence records the highest term seen per deployment. It survives restarts of the group, so a
// stale leader stays fenced. Only the group uses it, one incarnation at a time.
type Fence struct {
	latest map[string]uint64 // term by model
}

// Check records the term of a command. It returns a refusal if the term is stale.
func (f *Fence) Check(model string, term uint64) *messages.Refused {
	if latest := f.latest[model]; term < latest {
		r := refusal(messages.Reason_REASON_STALE_TERM,
			fmt.Sprintf("stale term %d for deployment %s (current %d)", term, model, latest), 0)
		r.Term = latest
		return r
	}
	if f.latest == nil {
		f.latest = make(map[string]uint64)
	}
	f.latest[model] = term
	return nil
}
