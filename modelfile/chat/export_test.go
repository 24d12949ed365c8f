package chat

import "time"

// RenderAt renders with a clock.
func (t *Template) RenderAt(messages any, now func() time.Time) (string, error) {
	return t.render(messages, true, nil, now)
}
