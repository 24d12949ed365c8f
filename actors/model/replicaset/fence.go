package replicaset

import (
	"fmt"
	"sync"

	"troupe/messages"
)

// Fence records the highest term seen per deployment. It survives restarts of the group, so a
// stale leader stays fenced. It is safe for concurrent use.
type Fence struct {
	mu     sync.Mutex
	latest map[string]uint64 // term by model
}

// Check records the term of a command. It returns a refusal if the term is stale.
func (f *Fence) Check(model string, term uint64) *messages.Refused {
	f.mu.Lock()
	defer f.mu.Unlock()
	if latest := f.latest[model]; term < latest {
		return refusal(messages.Reason_REASON_STALE_TERM,
			fmt.Sprintf("stale term %d for deployment %s (current %d)", term, model, latest), 0)
	}
	if f.latest == nil {
		f.latest = make(map[string]uint64)
	}
	f.latest[model] = term
	return nil
}
