package gateway

import (
	"context"
	"time"

	"troupe/actors/supervise"
	"troupe/core/quota"
	"troupe/gateway/openai"
	"troupe/messages"
)

// serve runs the steps of a request, records its usage and metrics, and responds with the error if
// a step failed.
func (g *Gateway) serve(ctx context.Context, gen *generation) {
	e := asError(g.takeSteps(ctx, gen))
	g.account(gen, e)
	if e != nil {
		gen.exchange.fail(e)
	}
}

// takeSteps runs the steps of a request until one fails. A panic fails only this request.
func (g *Gateway) takeSteps(ctx context.Context, gen *generation) (err error) {
	defer recoverPanic(g.cfg.Log, &err)
	for _, step := range [...]func(context.Context, *generation) error{
		g.read,    // reads the body into gen.req
		g.admit,   // takes a place for the client
		g.resolve, // finds the model, the adapter and the priority
		g.encode,  // tokenizes the prompts into gen.choices
		g.submit,  // sends the sequences to sessions
		g.deliver, // sends the output to the client
	} {
		if err := step(ctx, gen); err != nil {
			return err
		}
	}
	return nil
}

// exchange is a request and its response over HTTP or NATS. The steps call it where the protocols
// differ.
type exchange interface {
	// read reads and parses the request. It reserves memory for the body.
	read(memory *reservation) (*openai.Request, error)
	// admitted is called when the request has a place.
	admitted(gen *generation)
	// submitted is called when the choices are known, before their calls open.
	submitted(gen *generation)
	// write writes new output of a choice.
	write(gen *generation, d delta) error
	// finish ends the response after all output.
	finish(gen *generation) error
	// fail ends the response with an error. It is called last.
	fail(e *openai.Error)
}

// generation is a request being served, with one choice per sequence. Each step sets its part.
type generation struct {
	info     requestInfo
	exchange exchange
	memory   *reservation // for the body
	rt       supervise.Runtime

	// read
	req *openai.Request

	// admit
	admitted bool
	client   quota.Client
	weight   float64 // of the client
	began    time.Time
	deadline time.Time

	// resolve
	model       *model
	deployment  string                // name of the deployment
	adapter     *messages.AdapterSpec // nil: the base model
	blockTokens int                   // tokens per KV block
	salt        []byte                // of the KV blocks
	metrics     modelMetrics
	simulated   bool // nothing computes its text

	// encode
	choices    []*choice
	unfinished int // number of choices that have not finished

	// submit
	reserved  int64         // tokens, by the client's limits
	wake      chan struct{} // signaled when a call makes progress
	openCalls int           // number of open calls, at most maxOpenCalls
	opened    time.Time     // when the first calls were opened; zero: not yet
	pending   []*choice     // choices that start when a call ends

	// deliver
	finished time.Time // zero: some choice has not finished
}

// untilDeadline returns a context that ends at the request's deadline.
func (gen *generation) untilDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return gen.rt.WithTimeout(ctx, gen.deadline.Sub(gen.rt.Now()))
}

// newGeneration returns a generation before its first step.
func (g *Gateway) newGeneration(info requestInfo, x exchange) *generation {
	return &generation{
		info: info, exchange: x, memory: g.reserveMemory(), wake: make(chan struct{}, 1), rt: g.cfg.Runtime,
	}
}
