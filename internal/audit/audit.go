// Package audit keeps a record of who changed what, and of who was refused.
//
// Invariants: Record never blocks; what is recorded in a second is bounded, and the number of
// entries that were left out is recorded; a field has no control characters and a bounded length;
// no entry holds a prompt, a key or a seed.
package audit

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"troupe/internal/bounded"
)

// Result is how an action ended.
type Result string

const (
	Done    Result = "done"
	Failed  Result = "failed"
	Refused Result = "refused" // not allowed
)

// Unknown is who acted where nothing tells.
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
	LeftOut uint64    `json:"left_out,omitempty"` // entries with this result that were left out since the last one
}

// Config describes a Log.
type Config struct {
	Node string
	// File gets a line of JSON for each entry. Empty: entries are lines of Log, with "audit": true.
	File string
	Log  zerolog.Logger
}

const (
	queued = 1024
	// reportEvery is how often entries that were left out are counted, where no other entry does
	// so.
	reportEvery = 10 * time.Second
)

// Log takes entries. A nil Log drops them.
type Log struct {
	cfg     Config
	file    *file // nil: none
	queue   chan Entry
	flush   chan chan struct{}
	end     chan struct{}
	running sync.WaitGroup
	limits  map[Result]*bounded.Limiter
	leftOut map[Result]*atomic.Uint64
	entries map[Result]*atomic.Uint64
	dropped atomic.Uint64
	publish atomic.Pointer[func(kind, subject, detail string)]
}

// Open begins to take entries. Close ends that.
func Open(cfg Config) (*Log, error) {
	l := &Log{
		cfg: cfg, queue: make(chan Entry, queued), flush: make(chan chan struct{}), end: make(chan struct{}),
		// Each result has a share of its own: refusals cannot crowd out changes.
		limits: map[Result]*bounded.Limiter{
			Done:    bounded.New(100, 500),
			Failed:  bounded.New(20, 100),
			Refused: bounded.New(5, 20),
		},
		leftOut: map[Result]*atomic.Uint64{Done: {}, Failed: {}, Refused: {}},
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

// Publish also makes events of entries from now on; nil: no more. publish must not block.
func (l *Log) Publish(publish func(kind, subject, detail string)) {
	if publish == nil {
		l.publish.Store(nil)
		return
	}
	l.publish.Store(&publish)
}

// Record takes an entry, or counts it where there are too many. Time and Node are filled in.
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
	for _, field := range []*string{&e.Via, &e.Who, &e.Address, &e.Action, &e.Subject, &e.Object, &e.Reason, &e.Request} {
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
	l.leftOut[r].Add(1)
}

// Entries returns the number of actions with a result, those left out among them.
func (l *Log) Entries(r Result) uint64 { return l.entries[r].Load() }

// Dropped returns the number of entries that were left out.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// Flush waits until what was recorded before is written.
func (l *Log) Flush() {
	done := make(chan struct{})
	select {
	case l.flush <- done:
		<-done
	case <-l.end:
	}
}

// Close writes what was recorded before, and ends.
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

// report says how many entries were left out.
func (l *Log) report() {
	for _, r := range []Result{Done, Failed, Refused} {
		if l.leftOut[r].Load() > 0 {
			l.put(
				Entry{
					Time:   time.Now().UTC(),
					Node:   l.cfg.Node,
					Via:    "node",
					Who:    Unknown,
					Action: "audit.left_out",
					Result: r,
				},
			)
		}
	}
}

func (l *Log) put(e Entry) {
	e.LeftOut = l.leftOut[e.Result].Swap(0)
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
			"audit log not written; the entry is here",
		)
	}
	if publish := l.publish.Load(); publish != nil {
		(*publish)("audit."+e.Action, e.Object, string(line))
	}
}
