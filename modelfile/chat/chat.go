package chat

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/nodes"

	"troupe/modelfile"
)

const maxTemplate = int(modelfile.Template) // bytes

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Template is a model's chat template. It is safe for concurrent use. Rendering a nil Template
// returns ErrNoTemplate.
type Template struct {
	nodes  []nodes.Node
	tokens map[string]string // names such as bos_token → text
	path   string            // of the file that it was read from
}

// Render renders a conversation. With prompt set, it ends with the prompt for the assistant's
// answer.
func (t *Template) Render(messages []Message, prompt bool) (string, error) {
	return t.RenderWith(messages, prompt, nil)
}

// RenderWith is like Render, with all variables that a template can use. messages is a list of objects in
// any form that encodes to JSON, such as that of the request. extra holds further variables, such
// as tools; it cannot replace the standard ones.
func (t *Template) RenderWith(messages any, prompt bool, extra map[string]any) (string, error) {
	return t.render(messages, prompt, extra, time.Now)
}

func (t *Template) render(messages any, prompt bool, extra map[string]any, now func() time.Time) (_ string, err error) {
	if t == nil {
		return "", ErrNoTemplate
	}
	variables := &scope{names: make(map[string]any, len(extra)+len(t.tokens)+2), parent: globals}
	for name, v := range extra {
		if variables.names[name], err = ordered(v); err != nil {
			return "", fmt.Errorf("chat template: %s: %w", name, err)
		}
	}
	if variables.names["messages"], err = ordered(messages); err != nil {
		return "", fmt.Errorf("chat template: messages: %w", err)
	}
	for name, text := range t.tokens {
		variables.names[name] = text
	}
	variables.names["add_generation_prompt"] = prompt
	slots <- struct{}{}
	defer func() { <-slots }()
	r := &rendering{budget: budget{now: now, deadline: now().Add(maxTime)}, out: &builder{}, filters: filterFunctions}
	defer r.recovered(&err)
	r.nodes(variables, t.nodes)
	return r.out.String(), nil
}

// slots limits the number of concurrent renderings and so their total memory, since each has its
// own budget.
var slots = make(chan struct{}, min(runtime.GOMAXPROCS(0), 8))

// Error is an error of a template, or the message of its raise_exception.
type Error struct {
	Line   int
	Raised bool // by raise_exception: the template rejects the conversation
	err    error
}

func (e *Error) Error() string {
	if e.Raised {
		return "chat template: " + oneLine(e.err)
	}
	return fmt.Sprintf("chat template: line %d: %s", e.Line, oneLine(e.err))
}

func (e *Error) Unwrap() error { return e.err }

// recovered converts a panic with a fault into an error.
func (r *rendering) recovered(err *error) {
	switch p := recover().(type) {
	case nil:
	case fault:
		*err = &Error{Line: r.line, Raised: p.raised, err: p.err}
	default:
		*err = &Error{Line: r.line, err: errors.New("the template cannot be rendered")}
	}
}

// caught converts a panic of the template parser into an error that does not contain the template.
func caught(err *error) {
	if recover() != nil {
		*err = errors.New("chat template: not a template")
	}
}

const maxError = 500 // maximum length of a raise_exception message, in bytes

func oneLine(err error) string {
	text := err.Error()
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	return strings.Join(strings.Fields(text), " ")
}
