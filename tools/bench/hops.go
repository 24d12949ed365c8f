package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/node"
)

// hop is a point on the path of a request: an actor starts to handle a message, or the HTTP handler
// starts or ends.
type hop struct{ kind, message string }

// leg is the path from one hop to the next.
type leg struct {
	to   hop
	what string
}

var (
	begun = hop{"http", "begin"}
	ended = hop{"http", "end"}
	done  = hop{"client", "done"}
	// requestPath is the legs of a request, in order.
	requestPath = []leg{
		{begun, "client and HTTP server, to the handler"},
		{hop{"gateway", "*messages.OpenSession"}, "body to sequence; session requested"},
		{hop{"session", "*actor.Started"}, "session spawned"},
		{hop{"router", "*messages.RouteSequence"}, "route requested"},
		{hop{"session", "*messages.RouteSequenceResult"}, "routed"},
		{hop{"replica", "*messages.SubmitSequence"}, "submitted"},
		{hop{"engine", "*messages.RunStep"}, "admitted, step planned"},
		{hop{"engine", "*stepper.stepDone"}, "the step"},
		{hop{"replica", "*messages.RunStepResult"}, "result to the replica"},
		{hop{"session", "*messages.TokensEmitted"}, "token delivered"},
		{ended, "token to text, answer written"},
		{done, "HTTP server and client, to the end of the answer"},
	}
)

// tracer records the first time of each hop of a request.
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

// take returns the times recorded since the last call.
func (t *tracer) take() map[hop]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := t.seen
	t.seen = make(map[hop]time.Time)
	return seen
}

// middleware makes actors record the messages that they handle.
func (t *tracer) middleware(kind string) []actor.ReceiverMiddleware {
	return []actor.ReceiverMiddleware{func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
			t.note(hop{kind, fmt.Sprintf("%T", env.Message)})
			next(ctx, env)
		}
	}}
}

func (t *tracer) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.note(begun)
		next.ServeHTTP(w, r)
		t.note(ended)
	})
}

// requestLegs measures the time of each leg of a request.
func requestLegs() (section, error) {
	s := section{
		title: "Where the time of a request goes",
		how: "The same request on a node whose actors record when they start to handle each message. " +
			"Medians of each leg; they need not add up to the median of the whole. Between two requests " +
			"the step is run on another engine, as above, so that all code and data are loaded from " +
			"memory again.",
	}
	t := &tracer{seen: make(map[hop]time.Time)}
	n, stop, err := nodeWith(func(c *node.Config) { c.Middleware = t.middleware })
	if err != nil {
		return s, err
	}
	defer stop()
	e, err := openEngine()
	if err != nil {
		return s, err
	}
	defer e.Close()
	front := httptest.NewServer(t.handler(n.Handler()))
	defer front.Close()
	over, bare := oneToken(front.URL+"/v1/completions", e)
	if err := errors.Join(over(), fill(e, prompt())); err != nil {
		return s, err
	}
	spent := make([][]time.Duration, len(requestPath))
	_, _, _, err = paired(1000, func() error { return t.trace(over, spent) }, bare)
	for i, l := range requestPath {
		s.rows = append(s.rows, row{l.what, fmt.Sprintf("%d µs", median(spent[i]).Microseconds()), "", ""})
	}
	return s, err
}

// trace adds the times of a request's legs.
func (t *tracer) trace(request func() error, spent [][]time.Duration) error {
	t.take()
	last := time.Now()
	if err := request(); err != nil {
		return err
	}
	t.note(done)
	seen := t.take()
	for i, l := range requestPath {
		at, ok := seen[l.to]
		if !ok {
			return fmt.Errorf("a request did not reach %v", l.to)
		}
		spent[i] = append(spent[i], at.Sub(last))
		last = at
	}
	return nil
}
