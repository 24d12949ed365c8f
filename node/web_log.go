package node

import (
	"log"
	"strings"

	"github.com/rs/zerolog"

	"troupe/internal/bounded"
)

// Clients can make the HTTP server log an error with each connection, so the lines in a second are
// bounded.
const (
	webLinesLogged = 2 // a second
	webLinesAtOnce = 20
)

// webLog is the error log of the HTTP server.
type webLog struct {
	log   zerolog.Logger
	lines *bounded.Limiter
}

func newWebLog(to zerolog.Logger) *log.Logger {
	return log.New(&webLog{to, bounded.New(webLinesLogged, webLinesAtOnce)}, "", 0)
}

// Write implements io.Writer. What a handler panicked with is left out: it may hold what a client
// sent.
func (w *webLog) Write(line []byte) (int, error) {
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
