package cluster

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Pause is an interval without chunks in a stream.
type Pause struct {
	Stream  string // ID from the gateway
	Gateway string
	Began   time.Time
	Length  time.Duration
}

// readStream reads a streamed answer and compares each chunk with the expected answer, so that the
// position of a lost or repeated token is known. It returns the longest pause between two chunks.
// It calls onChunk with every chunk.
func readStream(ctx context.Context, n gateway, r Request, want Answer, onChunk func()) (pause Pause, err error) {
	res, err := post(ctx, n, r, true)
	if err != nil {
		return pause, err
	}
	defer res.Body.Close()
	got, lines := Answer{Tokens: -1}, bufio.NewReader(res.Body)
	var last time.Time
	for {
		data, err := event(lines)
		if err != nil {
			return pause, &cutError{after: utf8.RuneCountInString(got.Text), cause: err}
		}
		now := time.Now()
		if length := now.Sub(last); !last.IsZero() && length > pause.Length {
			pause.Began, pause.Length = last, length
		}
		last = now
		onChunk()
		if data == "[DONE]" {
			return pause, compare(got, want)
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			return pause, fmt.Errorf("chunk %q: %w", data, err)
		}
		pause.Stream = cmp.Or(pause.Stream, c.ID)
		if err := got.add(c, want); err != nil {
			return pause, err
		}
	}
}

// event returns the data of the next server-sent event.
func event(lines *bufio.Reader) (string, error) {
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return "", io.ErrUnexpectedEOF
		}
		if err != nil {
			return "", err
		}
		if data, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data: "); ok {
			return data, nil
		}
	}
}

// add appends a chunk. The result must be a prefix of the expected answer.
func (a *Answer) add(c chunk, want Answer) error {
	if c.Error != nil {
		return &refusedError{c.refusalCode(), c.Error.Message}
	}
	if c.Usage != nil {
		if a.Tokens >= 0 {
			return &mismatchError{"a second usage"}
		}
		a.Tokens = c.Usage.Tokens
	}
	for _, choice := range c.Choices {
		if a.Finish != "" {
			return &mismatchError{fmt.Sprintf("%q after the finish reason", choice.Text)}
		}
		a.Text, a.Finish = a.Text+choice.Text, choice.Finish
	}
	if !strings.HasPrefix(want.Text, a.Text) {
		return compare(*a, want)
	}
	return nil
}

// compare returns an error with the first difference from the expected answer.
func compare(got, want Answer) error {
	if got == want {
		return nil
	}
	same := 0
	for same < min(len(got.Text), len(want.Text)) && got.Text[same] == want.Text[same] {
		same++
	}
	return &mismatchError{fmt.Sprintf("from byte %d on %q, want %q; finish %q, want %q; %d tokens, want %d",
		same, excerpt(got.Text[same:]), excerpt(want.Text[same:]), got.Finish, want.Finish, got.Tokens, want.Tokens)}
}

func excerpt(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

// mismatchError is an answer that differs from the reference. It is never retried.
type mismatchError struct{ what string }

func (m *mismatchError) Error() string { return "wrong answer: " + m.what }

// refusedError is an error that the gateway sent in a stream.
type refusedError struct{ code, message string }

func (e *refusedError) Error() string { return "the stream ended with an error: " + e.message }

// cutError is the error of a broken connection. All chunks before it were correct.
type cutError struct {
	after int // characters
	cause error
}

func (e *cutError) Error() string {
	return fmt.Sprintf("the connection broke after %d characters: %v", e.after, e.cause)
}

func (e *cutError) Unwrap() error { return e.cause }
