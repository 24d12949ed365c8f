package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/cluster/troupe"
	"troupe/engine"
)

// hop is a place on the way of a request: an actor begins to handle a message, or the HTTP handler begins or ends.
type hop struct{ kind, message string }

// leg is the way to a hop, from the one before it.
type leg struct {
	to   hop
	what string
}

var (
	begun = hop{"http", "begin"}
	ended = hop{"http", "end"}
	// legs are those of a request, in order.
	legs = []leg{
		{begun, "client and HTTP server, to the handler"},
		{hop{"gateway", "*messages.OpenSession"}, "body to sequence; session asked for"},
		{hop{"session", "*actor.Started"}, "session spawned"},
		{hop{"router", "*messages.RouteSequence"}, "route asked for"},
		{hop{"session", "*messages.RouteSequenceResult"}, "routed"},
		{hop{"replica", "*messages.SubmitSequence"}, "submitted"},
		{hop{"engine", "*messages.RunStep"}, "admitted, and a step planned"},
		{hop{"engine", "*replica.stepped"}, "the step"},
		{hop{"replica", "*messages.RunStepResult"}, "result to the replica"},
		{hop{"session", "*messages.TokensEmitted"}, "token taken up"},
		{ended, "token to text, answer written"},
	}
)

// tracer notes when the hops of one request are passed, the first time each.
type tracer struct {
	mu   sync.Mutex
	seen map[hop]time.Time
}

func (t *tracer) note(h hop) {
	at := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, seen := t.seen[h]; !seen {
		t.seen[h] = at
	}
}

// take returns what was noted since the last time.
func (t *tracer) take() map[hop]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := t.seen
	t.seen = make(map[hop]time.Time)
	return seen
}

// wrap has actors note what they handle.
func (t *tracer) wrap(kind string, props *actor.Props) *actor.Props {
	return props.Configure(actor.WithReceiverMiddleware(func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
			t.note(hop{kind, fmt.Sprintf("%T", env.Message)})
			next(ctx, env)
		}
	}))
}

func (t *tracer) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.note(begun)
		next.ServeHTTP(w, r)
		t.note(ended)
	})
}

// breakdown tells where the time of a request goes.
func breakdown(e engine.Engine) ([]row, error) {
	t := &tracer{seen: make(map[hop]time.Time)}
	n, stop, err := nodeWith(func(c *troupe.Config) { c.Wrap = t.wrap })
	if err != nil {
		return nil, err
	}
	defer stop()
	front := httptest.NewServer(t.handler(n.Handler()))
	defer front.Close()
	over, bare := oneToken(front.URL+"/v1/completions", e)
	spent := make([][]time.Duration, len(legs)+1)
	_, _, _, err = paired(1000, func() error {
		t.take()
		last := time.Now()
		if err := over(); err != nil {
			return err
		}
		end := time.Now()
		seen := t.take()
		seen[hop{}] = end
		for i, l := range append(slices.Clone(legs), leg{}) {
			at, ok := seen[l.to]
			if !ok {
				return fmt.Errorf("a request did not pass %v", l.to)
			}
			spent[i] = append(spent[i], at.Sub(last))
			last = at
		}
		return nil
	}, bare)
	if err != nil {
		return nil, err
	}
	var rows []row
	for i, l := range append(slices.Clone(legs), leg{what: "HTTP server and client, to its end"}) {
		rows = append(rows, row{"of which: " + l.what, fmt.Sprintf("%d µs", median(spent[i]).Microseconds()), "", ""})
	}
	return rows, nil
}
