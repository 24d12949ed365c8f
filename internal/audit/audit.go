// Package audit records who changed what, and who was refused.
//
// Invariants: Record never blocks. The number of entries per second is bounded, and the number of
// omitted entries is recorded. A field has no control characters and a bounded length. No entry
// contains a prompt, a key or a seed.
package audit

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"troupe/internal/bounded"
)

// Result is the outcome of an action.
type Result string

const (
	Done    Result = "done"
	Failed  Result = "failed"
	Refused Result = "refused" // not allowed
)

// Unknown is the value of Who if the actor is not known.
const Unknown = "unknown"

// Entry is one action.
type Entry struct {
	Time    time.Time `json:"time"`
	Node    string    `json:"node"`
	Via     string    `json:"via"` // http, nats, file or node
	Who     string    `json:"who"`
	Address string    `json:"address,omitempty"`
	Action  string    `json:"action"` // of a fixed set
	Subject string    `json:"subject,omitempty"`
	Object  string    `json:"object,omitempty"`
	Result  Result    `json:"result"`
	Reason  string    `json:"reason,omitempty"`
	Request string    `json:"request,omitempty"`
	Millis  int64     `json:"ms"`
	LeftOut uint64    `json:"left_out,omitempty"` // entries with this result omitted since the last one
}

// Config describes a Log.
type Config struct {
	Node string
	// File receives one line of JSON per entry. If empty, entries are written to Log with "audit":
	// true.
	File string
	Log  zerolog.Logger
}

const (
	queueLength = 1024
	// reportEvery is the interval for reporting omitted entries if no other entry does so.
	reportEvery = 10 * time.Second
)

// Log records entries. A nil Log drops them.
type Log struct {
	cfg     Config
	file    *file // nil: none
	queue   chan Entry
	flush   chan chan struct{}
	end     chan struct{}
	running sync.WaitGroup
	limits  map[Result]*bounded.Limiter
	omitted map[Result]*atomic.Uint64
	entries map[Result]*atomic.Uint64
	dropped atomic.Uint64
	publish atomic.Pointer[func(kind, subject, detail string)]
}

// Open starts a Log.
func Open(cfg Config) (*Log, error) {
	l := &Log{
		cfg: cfg, queue: make(chan Entry, queueLength), flush: make(chan chan struct{}), end: make(chan struct{}),
		// Each result has its own limit, so that refusals cannot crowd out changes.
		limits: map[Result]*bounded.Limiter{
			Done:    bounded.New(100, 500),
			Failed:  bounded.New(20, 100),
			Refused: bounded.New(5, 20),
		},
		omitted: map[Result]*atomic.Uint64{Done: {}, Failed: {}, Refused: {}},
		entries: map[Result]*atomic.Uint64{Done: {}, Failed: {}, Refused: {}},
	}
	if cfg.File != "" {
		l.file = &file{path: cfg.File}
		if err := l.file.open(); err != nil {
			return nil, err
		}
	}
	l.running.Go(l.write)
	return l, nil
}

// Publish sets a function that receives an event for each entry; nil removes it. The function must
// not block.
func (l *Log) Publish(publish func(kind, subject, detail string)) {
	if publish == nil {
		l.publish.Store(nil)
		return
	}
	l.publish.Store(&publish)
}

// Record records an entry, or counts it as omitted if there are too many. It sets Time and Node.
func (l *Log) Record(e Entry) {
	if l == nil {
		return
	}
	limit, ok := l.limits[e.Result]
	if !ok {
		e.Result = Failed
		limit = l.limits[Failed]
	}
	l.entries[e.Result].Add(1)
	if ok, _ := limit.Allow(); !ok {
		l.drop(e.Result)
		return
	}
	e.Time, e.Node = time.Now().UTC(), l.cfg.Node
	for _, field := range []*string{
		&e.Via, &e.Who, &e.Address, &e.Action, &e.Subject, &e.Object, &e.Reason, &e.Request,
	} {
		*field = clean(*field)
	}
	select {
	case l.queue <- e:
	default:
		l.drop(e.Result)
	}
}

func (l *Log) drop(r Result) {
	l.dropped.Add(1)
	l.omitted[r].Add(1)
}

// Entries returns the number of actions with a result, including omitted ones.
func (l *Log) Entries(r Result) uint64 { return l.entries[r].Load() }

// Dropped returns the number of omitted entries.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// Flush waits until all earlier entries are written.
func (l *Log) Flush() {
	done := make(chan struct{})
	select {
	case l.flush <- done:
		<-done
	case <-l.end:
	}
}

// Close writes all earlier entries and ends the Log.
func (l *Log) Close() {
	close(l.end)
	l.running.Wait()
}

func (l *Log) write() {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case e := <-l.queue:
			l.put(e)
		case done := <-l.flush:
			l.drain()
			close(done)
		case <-tick.C:
			l.report()
		case <-l.end:
			l.drain()
			l.report()
			if l.file != nil {
				l.file.close()
			}
			return
		}
	}
}

func (l *Log) drain() {
	for len(l.queue) > 0 {
		l.put(<-l.queue)
	}
}

// report records the numbers of omitted entries.
func (l *Log) report() {
	for _, r := range []Result{Done, Failed, Refused} {
		if l.omitted[r].Load() > 0 {
			l.put(Entry{
				Time: time.Now().UTC(), Node: l.cfg.Node, Via: "node", Who: Unknown, Action: "audit.left_out",
				Result: r,
			})
		}
	}
}

func (l *Log) put(e Entry) {
	e.LeftOut = l.omitted[e.Result].Swap(0)
	line, err := json.Marshal(e)
	if err != nil {
		l.cfg.Log.Error().Err(err).Msg("audit entry not encoded")
		return
	}
	if l.file == nil {
		l.cfg.Log.Info().Bool("audit", true).RawJSON("entry", line).Msg("audit")
	} else if err := l.file.write(append(line, '\n')); err != nil {
		l.dropped.Add(1)
		l.cfg.Log.Error().Err(err).Bool("audit", true).RawJSON("entry", line).Msg(
			"audit log write failed; entry attached",
		)
	}
	if publish := l.publish.Load(); publish != nil {
		(*publish)("audit."+e.Action, e.Object, string(line))
	}
}
