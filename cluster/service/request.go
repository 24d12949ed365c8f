package service

import (
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Request is a request whose reply subject the guard has admitted. It is safe for concurrent use.
type Request struct {
	msg      *nats.Msg
	limit    int64     // of an answer, in bytes
	endpoint *endpoint // nil for a request to $SRV
	sender   Sender
	failed   atomic.Bool
}

// Handler answers a request. It must not block, since the handlers of one endpoint run one after
// another. It may keep the request and answer later.
type Handler func(*Request)

// Data returns the body.
func (r *Request) Data() []byte { return r.msg.Data }

// Headers returns the headers of the request.
func (r *Request) Headers() micro.Headers { return micro.Headers(r.msg.Header) }

// Subject returns the subject that the request was sent to.
func (r *Request) Subject() string { return r.msg.Subject }

// Reply returns the subject for answers. It is empty if the client expects none.
func (r *Request) Reply() string { return r.msg.Reply }

// Sender identifies the client, as far as it is known.
func (r *Request) Sender() Sender { return r.sender }

// Account returns the account of the client, or "" if it is unknown.
func (r *Request) Account() string { return r.sender.Account }

// Limit returns the length of the longest message that the server accepts, in bytes.
func (r *Request) Limit() int64 { return r.limit }

// Respond sends an answer. A request may have several. An answer with micro.ErrorHeader counts as
// an error of the endpoint.
func (r *Request) Respond(data []byte, opts ...micro.RespondOpt) error {
	answer := &nats.Msg{Data: data}
	for _, opt := range opts {
		opt(answer)
	}
	if text := answer.Header.Get(micro.ErrorHeader); text != "" {
		r.fail(answer.Header.Get(micro.ErrorCodeHeader) + ":" + text)
	}
	if err := r.msg.RespondMsg(answer); err != nil {
		r.fail(err.Error())
		return fmt.Errorf("answer a request to %s: %w", r.msg.Subject, err)
	}
	return nil
}

// fail counts a request as failed, at most once.
func (r *Request) fail(text string) {
	if r.endpoint != nil && !r.failed.Swap(true) {
		r.endpoint.failed(text)
	}
}
