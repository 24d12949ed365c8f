package chat

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/nodes"

	"troupe/engine/modelfile"
)

const maxTemplate = int(modelfile.Template) // bytes

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Template is a model's chat template. It is safe for concurrent use; a nil one renders nothing but ErrNoTemplate.
type Template struct {
	nodes  []nodes.Node
	tokens map[string]string // bos_token and the like → text
	path   string            // of the file that it is from
}

// Render writes a conversation. With prompt set, what invites the assistant's answer comes last.
func (t *Template) Render(messages []Message, prompt bool) (string, error) {
	return t.RenderWith(messages, prompt, nil)
}

// RenderWith is Render for all that a template may be given. messages is a list of objects in whatever form encodes to
// JSON: that of a request as it came will do. extra are further variables, such as tools; it cannot replace the usual ones.
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

// slots bound how many templates are rendered at once, and with it the memory of all: each has its own budget.
var slots = make(chan struct{}, min(runtime.GOMAXPROCS(0), 8))

// Error is a fault of a template, or what its raise_exception says.
type Error struct {
	Line   int
	Raised bool // by raise_exception: the template refuses the conversation
	err    error
}

func (e *Error) Error() string {
	if e.Raised {
		return "chat template: " + oneLine(e.err)
	}
	return fmt.Sprintf("chat template: line %d: %s", e.Line, oneLine(e.err))
}

func (e *Error) Unwrap() error { return e.err }

// recovered turns a fault into an error.
func (r *rendering) recovered(err *error) {
	switch p := recover().(type) {
	case nil:
	case fault:
		*err = &Error{Line: r.line, Raised: p.raised, err: p.err}
	default:
		*err = &Error{Line: r.line, err: errors.New("the template cannot be rendered")}
	}
}

// caught turns a panic of the template parser into an error, which does not show the template.
func caught(err *error) {
	if recover() != nil {
		*err = errors.New("chat template: it is no template")
	}
}

const maxError = 500 // bytes of a message of raise_exception

func oneLine(err error) string {
	text := err.Error()
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	return strings.Join(strings.Fields(text), " ")
}
