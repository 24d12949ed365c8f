package openai

import (
	"fmt"
	"net/http"
	"time"

	"troupe/messages"
)

// Error is an error in OpenAI's shape.
type Error struct {
	Status     int // HTTP
	RetryAfter time.Duration
	Reason     messages.Reason

	Message string
	Type    string
	Param   *string // the field that is wrong
	Code    *string
}

func (e *Error) Error() string { return e.Message }

// JSON is the body of the answer.
func (e *Error) JSON() []byte {
	text := func(s *string) []byte {
		if s == nil {
			return []byte("null")
		}
		return AppendString(nil, *s)
	}
	return fmt.Appendf(
		nil,
		`{"error":{"message":%s,"type":%s,"param":%s,"code":%s}}`,
		text(&e.Message),
		text(&e.Type),
		text(e.Param),
		text(e.Code),
	)
}

// Invalid is an error in the request.
func Invalid(param, message string) *Error {
	e := &Error{
		Status: http.StatusBadRequest, Reason: messages.Reason_REASON_INVALID_ARGUMENT, Message: clipText(message), Type: "invalid_request_error",
	}
	if param != "" {
		e.Param = &param
	}
	return e
}

// codes are OpenAI's words for reasons.
var errorCodes = map[messages.Reason]string{
	messages.Reason_REASON_NOT_FOUND:  "model_not_found",
	messages.Reason_REASON_TOO_LONG:   "context_length_exceeded",
	messages.Reason_REASON_QUEUE_FULL: "rate_limit_exceeded",
	messages.Reason_REASON_NOT_READY:  "model_not_ready",
	messages.Reason_REASON_DEADLINE:   "timeout",
	messages.Reason_REASON_STOPPED:    "model_stopped",
}

// FromRefused is the error for a refusal.
func FromRefused(r *messages.Refused) *Error {
	e := &Error{
		Status:     r.GetReason().HTTPStatus(),
		Reason:     r.GetReason(),
		Message:    clipText(r.GetDetail()),
		RetryAfter: r.GetRetryAfter().AsDuration(),
	}
	switch {
	case e.Status == http.StatusTooManyRequests:
		e.Type = "rate_limit_error"
	case e.Status >= 500:
		e.Type = "server_error"
	default:
		e.Type = "invalid_request_error"
	}
	if code, ok := errorCodes[r.GetReason()]; ok {
		e.Code = &code
	}
	return e
}

// Refusal is FromRefused for a reason and its text.
func Refusal(reason messages.Reason, detail string) *Error {
	return FromRefused(&messages.Refused{Reason: reason, Detail: detail})
}
