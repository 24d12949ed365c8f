package gateway

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	"troupe/gateway/openai"
	"troupe/messages"
)

// recoverPanic turns a panic into an error, so that it fails only one request.
func recoverPanic(log zerolog.Logger, err *error) {
	if p := recover(); p != nil {
		log.Error().
			Str("panic", supervise.PanicText(p)).
			Bytes("stack", debug.Stack()).
			Msg("request panicked in the gateway")
		*err = openai.Refusal(messages.Reason_REASON_INTERNAL, "the gateway failed to serve this request; see its log")
	}
}

// asError converts an error to OpenAI's form. It keeps the reason for a refusal. It returns nil for
// nil.
func asError(err error) *openai.Error {
	var e *openai.Error
	var refused interface {
		GetReason() messages.Reason
		GetRetryAfter() *durationpb.Duration
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.As(err, &refused):
		return publicError(&messages.Refused{
			Reason: refused.GetReason(), Detail: err.Error(), RetryAfter: refused.GetRetryAfter(),
		})
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, actor.ErrTimeout):
		return openai.Refusal(messages.Reason_REASON_DEADLINE, "the request's time is up")
	case errors.Is(err, context.Canceled):
		return openai.Refusal(messages.Reason_REASON_CANCELLED, "the client left")
	}
	return publicError(&messages.Refused{Reason: messages.Reason_REASON_INTERNAL, Detail: err.Error()})
}

// publicError returns the error that clients see for a refusal. It hides paths of the host.
func publicError(r *messages.Refused) *openai.Error {
	detail := r.GetDetail()
	if r.GetReason() == messages.Reason_REASON_LOAD_FAILED {
		detail = loadFailedText
	}
	if r.GetReason().HTTPStatus() >= http.StatusInternalServerError {
		detail = withoutPaths(detail)
	}
	return openai.FromRefused(&messages.Refused{
		Reason: r.GetReason(), Detail: detail, RetryAfter: r.GetRetryAfter(), Memory: r.GetMemory(),
	})
}
