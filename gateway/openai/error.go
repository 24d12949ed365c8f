package openai

import (
	"fmt"
	"net/http"
	"time"

	"troupe/messages"
)

// Error is an error in OpenAI's form.
type Error struct {
	Status     int // HTTP status
	RetryAfter time.Duration
	Reason     messages.Reason

	Message string
	Type    string
	Param   *string // the invalid field
	Code    *string
	Memory  *messages.MemoryShortage // nil: memory is not the reason
}

func (e *Error) Error() string { return e.Message }

// JSON returns the body of the error response.
func (e *Error) JSON() []byte {
	text := func(s *string) []byte {
		if s == nil {
			return []byte("null")
		}
		return AppendString(nil, *s)
	}
	return fmt.Appendf(nil, `{"error":{"message":%s,"type":%s,"param":%s,"code":%s%s}}`,
		text(&e.Message), text(&e.Type), text(e.Param), text(e.Code), e.MemoryJSON())
}

// MemoryJSON returns the missing memory as a member of a JSON object, with the comma before it, or
// nothing. It leaves out the folder of the model.
func (e *Error) MemoryJSON() string {
	m := e.Memory
	if m == nil {
		return ""
	}
	return fmt.Sprintf(`,"memory":{"bytes":%d,"used":%d,"total":%d,"reserve":%d,"evictable":%d%s}`,
		m.GetBytes(), m.GetUsed(), m.GetTotal(), m.GetReserve(), m.GetEvictable(), leaveJSON(m))
}

// leaveJSON returns the models that would make room by leaving a device, as members of a JSON object with
// a comma before them, or nothing.
func leaveJSON(m *messages.MemoryShortage) string {
	if len(m.GetLeave()) == 0 {
		return ""
	}
	body := append([]byte(`,"device":`), AppendString(nil, m.GetDevice())...)
	for i, h := range m.GetLeave() {
		body = append(body, []string{`,"leave":[`, ","}[min(i, 1)]...)
		body = append(AppendString(append(body, `{"model":`...), h.GetModel()), `,"replicas":[`...)
		for j, replica := range h.GetReplicas() {
			body = AppendString(append(body, []string{"", ","}[min(j, 1)]...), replica)
		}
		body = fmt.Appendf(body, `],"bytes":%d,"command":%s}`, h.GetBytes(), AppendString(nil, h.GetCommand()))
	}
	return string(append(body, ']'))
}

// Invalid returns an error about a field of a request. An empty param means no particular field.
func Invalid(param, message string) *Error {
	e := &Error{
		Status: http.StatusBadRequest, Reason: messages.Reason_REASON_INVALID_ARGUMENT,
		Message: clipText(message), Type: "invalid_request_error",
	}
	if param != "" {
		e.Param = &param
	}
	return e
}

// errorCodes are OpenAI's codes of reasons.
var errorCodes = map[messages.Reason]string{
	messages.Reason_REASON_NOT_FOUND:  "model_not_found",
	messages.Reason_REASON_TOO_LONG:   "context_length_exceeded",
	messages.Reason_REASON_QUEUE_FULL: "rate_limit_exceeded",
	messages.Reason_REASON_NOT_READY:  "model_not_ready",
	messages.Reason_REASON_DEADLINE:   "timeout",
	messages.Reason_REASON_STOPPED:    "model_stopped",
}

// FromRefused converts a refusal to OpenAI's form.
func FromRefused(r *messages.Refused) *Error {
	e := &Error{
		Status:     r.GetReason().HTTPStatus(),
		Reason:     r.GetReason(),
		Message:    clipText(r.GetDetail()),
		RetryAfter: r.GetRetryAfter().AsDuration(),
		Memory:     r.GetMemory(),
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

// Refusal returns the error for a reason and its detail.
func Refusal(reason messages.Reason, detail string) *Error {
	return FromRefused(&messages.Refused{Reason: reason, Detail: detail})
}
