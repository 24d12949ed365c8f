package openai

import (
	"encoding/json"
	"net/http"
	"time"

	"troupe/messages"
)

// Error is an error in OpenAI's shape.
type Error struct {
	Status     int             `json:"-"`
	RetryAfter time.Duration   `json:"-"`
	Reason     messages.Reason `json:"-"`

	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func (e *Error) Error() string { return e.Message }

// JSON is the body of the answer.
func (e *Error) JSON() []byte {
	b, err := json.Marshal(struct {
		Error *Error `json:"error"`
	}{e})
	if err != nil {
		panic(err) // strings alone
	}
	return b
}

// Invalid is an error in the request.
func Invalid(param, message string) *Error {
	e := &Error{
		Status: http.StatusBadRequest, Reason: messages.Reason_REASON_INVALID_ARGUMENT, Message: message, Type: "invalid_request_error",
	}
	if param != "" {
		e.Param = &param
	}
	return e
}

// codes are OpenAI's words for reasons.
var codes = map[messages.Reason]string{
	messages.Reason_REASON_NOT_FOUND:  "model_not_found",
	messages.Reason_REASON_TOO_LONG:   "context_length_exceeded",
	messages.Reason_REASON_QUEUE_FULL: "rate_limit_exceeded",
	messages.Reason_REASON_NOT_READY:  "model_not_ready",
	messages.Reason_REASON_DEADLINE:   "timeout",
}

// FromRefused is the error for a refusal.
func FromRefused(r *messages.Refused) *Error {
	e := &Error{Status: r.GetReason().HTTPStatus(), Reason: r.GetReason(), Message: r.GetDetail(), RetryAfter: r.GetRetryAfter().AsDuration()}
	switch {
	case e.Status == http.StatusTooManyRequests:
		e.Type = "rate_limit_error"
	case e.Status >= 500:
		e.Type = "server_error"
	default:
		e.Type = "invalid_request_error"
	}
	if code, ok := codes[r.GetReason()]; ok {
		e.Code = &code
	}
	return e
}

// Refusal is FromRefused for a reason and its text.
func Refusal(reason messages.Reason, detail string) *Error {
	return FromRefused(&messages.Refused{Reason: reason, Detail: detail})
}
