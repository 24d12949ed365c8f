package chat

import "time"

// RenderAt is like Render, with now as the clock.
func (t *Template) RenderAt(messages any, now func() time.Time) (string, error) {
	return t.render(messages, true, nil, now)
}
