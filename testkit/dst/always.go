package dst

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// maxViolations is the number of violations that a run records. The first ones explain the others.
const maxViolations = 10

// checks records what violates a property while a cluster runs.
type checks struct {
	calm  bool // no fault is injected: nothing may be logged as wrong, and nothing may be lost
	quiet bool // and no operator interferes
	light bool // and there are so few requests that none is sent again, unless its replica drains

	level     zerolog.Level // of the log
	staleNote atomic.Value  // a string; empty: none is being handled

	watch func(line []byte) // reads the logs; may be nil

	mu        sync.Mutex
	violated  []string
	seen      map[string]bool
	messages  messageChecks
	turns     turnChecks
	plans     planChecks
	cached    cachedChecks
	computed  int                  // tokens that engines have computed for clients
	preempted map[string]int       // by request: how many times it was preempted
	cooling   bool                 // an actor crashed so often that it was restarted only after a while
	settled   bool                 // the actors have started, and do not stop yet
	dead      map[string]time.Time // by request: when tokens found no session for the first time
}

func newChecks(calm bool) *checks {
	return &checks{calm: calm, seen: make(map[string]bool), preempted: make(map[string]int),
		dead: make(map[string]time.Time), messages: newMessageChecks(), turns: newTurnChecks(), plans: newPlanChecks(),
		cached: newCachedChecks()}
}

// fail records a violation, unless the same was recorded before.
func (c *checks) fail(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(format, args...)
}

// failLocked is fail for callers that hold c.mu.
func (c *checks) failLocked(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(c.violated) < maxViolations && !c.seen[text] {
		c.seen[text] = true
		c.violated = append(c.violated, text)
	}
}

// flooded records that too many messages wait for an actor.
func (c *checks) flooded(node, actor string) {
	c.fail("more than %d messages wait for %s on %s", maxMailbox, actor, node)
}

// all returns the violations in the order in which they occurred.
func (c *checks) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.violated
}

func sortedQuestions(all map[question]time.Time) []question {
	return slices.SortedFunc(maps.Keys(all), func(a, b question) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.asker, b.asker), cmp.Compare(a.id, b.id))
	})
}
