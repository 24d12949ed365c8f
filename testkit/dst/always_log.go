package dst

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"

	"github.com/rs/zerolog"
)

// logChecks reads the log of a node. A message that an actor does not know is a violation in every
// run. In a calm run, so are warnings, errors, and events that a transition table does not expect.
type logChecks struct {
	checks *checks
	next   io.Writer // may be nil
}

// logger returns the logger of a node.
func (c *checks) logger(node string, next io.Writer) zerolog.Logger {
	c.level = zerolog.WarnLevel
	if c.calm || next != nil || c.watch != nil {
		c.level = zerolog.DebugLevel
	}
	c.stale("")
	return zerolog.New(&logChecks{c, next}).Level(zerolog.DebugLevel).With().Str("node", node).Logger()
}

// Write implements io.Writer.
func (l *logChecks) Write(line []byte) (int, error) { return l.WriteLevel(zerolog.NoLevel, line) }

// WriteLevel implements zerolog.LevelWriter.
func (l *logChecks) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	if note, _ := l.checks.staleNote.Load().(string); note != "" {
		l.checks.fail("%s was not ignored: %s", note, bytes.TrimSpace(line))
	}
	wrong := ""
	switch {
	case bytes.Contains(line, []byte("unknown message ignored")):
		l.checks.fail("unknown message: %s", bytes.TrimSpace(line))
	case bytes.Contains(line, []byte(`"message":"actor crashed"`)) && !containsAny(line, crashes):
		wrong = "crash"
	case l.checks.calm && containsAny(line, harmless):
	case l.checks.quiet && bytes.Contains(line, []byte(`"why":"unexpected"`)):
		wrong = "unexpected event"
	case l.checks.calm && l.checks.isSettled() && level >= zerolog.WarnLevel && level != zerolog.NoLevel:
		wrong = "warning"
	}
	if wrong != "" {
		l.checks.fail("%s without a fault: %s", wrong, bytes.TrimSpace(line))
	}
	l.checks.preemption(line)
	if bytes.Contains(line, []byte(`"message":"child stopped after too many crashes"`)) {
		l.checks.cool()
	}
	if l.checks.watch != nil {
		l.checks.watch(line)
	}
	if l.next != nil {
		return l.next.Write(line)
	}
	return len(line), nil
}

// cool records that an actor is not there for a while, so that requests may miss their deadlines.
func (c *checks) cool() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cooling = true
}

// preemption counts the preemptions of each request.
func (c *checks) preemption(line []byte) {
	var event struct{ Message, Request string }
	if !c.calm || !bytes.Contains(line, []byte(`"message":"sequence preempted"`)) ||
		json.Unmarshal(line, &event) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.preempted[event.Request]++
}

// crashes are the reasons for crashes that the faults of a run explain.
var crashes = []string{"dst: crash", "the simulation", "device lost", "too many crashes"}

// harmless are the lines that load and commands of operators explain: a timer that comes late, and a
// fetch of blocks that their holder has evicted meanwhile, or that has other files. While two
// versions of a model are loaded, memory may be short.
var harmless = []string{`"event":"retry"`, `"event":"timed out"`, `"message":"restore incomplete"`, "short of memory"}

func containsAny(line []byte, texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return bytes.Contains(line, []byte(text)) })
}
