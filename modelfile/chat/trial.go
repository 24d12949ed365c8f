package chat

import (
	"errors"
	"fmt"

	"troupe/modelfile"
)

// trials are typical conversations of clients. A template may reject some, such as those with a
// system message.
var trials = [][]Message{
	{{"system", "Be brief."}, {"user", "Hello"}, {"assistant", "Hi."}, {"user", "Who are you?"}},
	{{"user", "Hello"}, {"assistant", "Hi."}, {"user", "Who are you?"}},
	{{"user", "Hello"}},
}

// Try loads the template of a model folder and renders the trial conversations. A folder without a
// template passes, since its model is for completions.
func Try(roots modelfile.Roots, dir string) error {
	t, err := Load(roots, dir)
	if errors.Is(err, ErrNoTemplate) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := t.try(); err != nil {
		return fmt.Errorf(
			"%s: trial rendering failed: %w; correct the template, or remove it to allow completions only",
			t.path,
			err,
		)
	}
	return nil
}

// try renders the trial conversations until one succeeds. It returns an error if rendering fails,
// or if the template rejects all conversations.
func (t *Template) try() (err error) {
	for _, talk := range trials {
		_, err = t.Render(talk, true)
		var fault *Error
		if !errors.As(err, &fault) || !fault.Raised {
			return err
		}
	}
	return err
}
