package replica

import (
	"fmt"
	"sync"

	"troupe/messages"
)

// Fence remember the latest reign of each deployment that this node has heard of. They outlive the group, so that a deployment
// that was deposed stays so after a crash of the group. They are safe for concurrent use.
type Fence struct {
	mu     sync.Mutex
	latest map[string]uint64 // model -> term
}

// Check notes a command of a reign. It returns a refusal where a later one has spoken already.
func (t *Fence) Check(model string, term uint64) *messages.Refused {
	t.mu.Lock()
	defer t.mu.Unlock()
	if latest := t.latest[model]; term < latest {
		return refusal(messages.Reason_REASON_STALE_TERM,
			fmt.Sprintf("stale term %d for deployment %s (current %d)", term, model, latest), 0)
	}
	if t.latest == nil {
		t.latest = make(map[string]uint64)
	}
	t.latest[model] = term
	return nil
}
