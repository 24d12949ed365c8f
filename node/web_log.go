package node

import (
	"log"
	"strings"

	"github.com/rs/zerolog"

	"troupe/internal/bounded"
)

// Clients can cause an error line with each connection, so the number of lines is limited.
const (
	webLinesLogged = 2 // per second
	webLinesAtOnce = 20
)

// webLog is a rate-limited error log for an HTTP server.
type webLog struct {
	log   zerolog.Logger
	lines *bounded.Limiter
}

func newWebLog(to zerolog.Logger) *log.Logger {
	return log.New(&webLog{to, bounded.New(webLinesLogged, webLinesAtOnce)}, "", 0)
}

// Write implements io.Writer. It leaves out the value of a handler's panic, which may contain data
// of a client.
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
