package natsd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"troupe/internal/bounded"
)

// Clients can make the server log an error for each message, so the rate of log lines is limited.
const (
	logLinesPerSecond = 5 // sustained rate
	logBurst          = 50
)

// logger forwards the warnings and errors of nats-server.
type logger struct {
	log     zerolog.Logger
	refused func(address, what string)
	lines   *bounded.Limiter
	fatal   chan string // the first reason why the server does not start
}

func newLogger(cfg *Config) *logger {
	return &logger{
		log:     cfg.Log,
		refused: cfg.OnRefused,
		lines:   bounded.New(logLinesPerSecond, logBurst),
		fatal:   make(chan string, 1),
	}
}

// Warnf, Errorf, Noticef, Debugf and Tracef implement server.Logger.
func (l *logger) Warnf(format string, v ...any)  { l.write(zerolog.WarnLevel, format, v) }
func (l *logger) Errorf(format string, v ...any) { l.write(zerolog.ErrorLevel, format, v) }
func (l *logger) Noticef(string, ...any)         {}
func (l *logger) Debugf(string, ...any)          {}
func (l *logger) Tracef(string, ...any)          {}

// Fatalf implements server.Logger. nats-server continues without the part that failed.
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

// refusalMarks identify lines about clients that were refused.
var refusalMarks = []string{
	"authentication error", "Publish Violation", "Subscription Violation", "TLS handshake error",
}

// isRefusal reports whether a line is about a client that was refused.
func isRefusal(text string) bool {
	return slices.ContainsFunc(refusalMarks, func(r string) bool { return strings.Contains(text, r) })
}
