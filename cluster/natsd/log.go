package natsd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"troupe/internal/bounded"
)

// Clients can make the server log an error with each message, so the lines in a second are bounded.
const (
	logLinesPerSecond = 5 // a second
	logBurst          = 50
)

// logger passes on the warnings and errors of the server.
type logger struct {
	log     zerolog.Logger
	refused func(address, what string)
	lines   *bounded.Limiter
	fatal   chan string // the reason why the server does not start; of several, the first
}

func newLogger(cfg *Config) *logger {
	return &logger{log: cfg.Log, refused: cfg.OnRefused, lines: bounded.New(logLinesPerSecond, logBurst), fatal: make(chan string, 1)}
}

// Warnf implements server.Logger, like the methods below.
func (l *logger) Warnf(format string, v ...any)  { l.write(zerolog.WarnLevel, format, v) }
func (l *logger) Errorf(format string, v ...any) { l.write(zerolog.ErrorLevel, format, v) }
func (l *logger) Noticef(string, ...any)         {}
func (l *logger) Debugf(string, ...any)          {}
func (l *logger) Tracef(string, ...any)          {}

// Fatalf implements server.Logger. The server goes on without what has failed.
func (l *logger) Fatalf(format string, v ...any) {
	l.write(zerolog.ErrorLevel, format, v)
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
	}
}

func (l *logger) write(level zerolog.Level, format string, v []any) {
	text := strings.TrimSpace(fmt.Sprintf(format, v...))
	if l.refused != nil && isRefusal(text) {
		address, _, _ := strings.Cut(text, " - ")
		l.refused(address, text)
	}
	ok, leftOut := l.lines.Allow()
	if !ok {
		return
	}
	line := l.log.WithLevel(level)
	if leftOut > 0 {
		line = line.Uint64("left_out", leftOut)
	}
	line.Msg("nats-server: " + text)
}

// refusalMarks are what lines about clients that were not allowed something contain.
var refusalMarks = []string{
	"authentication error", "Publish Violation", "Subscription Violation", "TLS handshake error",
}

// isRefusal reports whether a line is about a client that was not allowed something.
func isRefusal(text string) bool {
	return slices.ContainsFunc(refusalMarks, func(r string) bool { return strings.Contains(text, r) })
}
