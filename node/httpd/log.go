package httpd

import (
	"log"
	"strings"

	"github.com/rs/zerolog"

	"troupe/internal/bounded"
)

// Clients can cause one error line per connection, so the number of lines is limited.
const (
	linesLogged = 2 // per second
	linesAtOnce = 20
)

// errorLog is a rate-limited error log for an HTTP server.
type errorLog struct {
	log   zerolog.Logger
	lines *bounded.Limiter
}

func newLog(to zerolog.Logger) *log.Logger {
	return log.New(&errorLog{to, bounded.New(linesLogged, linesAtOnce)}, "", 0)
}

// Write implements io.Writer. It omits the value of a handler's panic, which may contain a client's
// data.
func (w *errorLog) Write(line []byte) (int, error) {
	ok, leftOut := w.lines.Allow()
	if !ok {
		return len(line), nil
	}
	text := strings.TrimSpace(string(line))
	e := w.log.Warn()
	if leftOut > 0 {
		e = e.Uint64("left_out", leftOut)
	}
	if who, rest, panicked := strings.Cut(text, "panic serving "); panicked {
		address, _, _ := strings.Cut(rest, ": ")
		_, stack, _ := strings.Cut(rest, "\ngoroutine ")
		text, e = who+"panic serving "+address, e.Str("stack", stack)
	}
	e.Msg(text)
	return len(line), nil
}
