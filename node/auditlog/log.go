// Package auditlog records changes of a node: its start and stop, reloaded files, requests over
// NATS that were denied, and nodes that join or leave.
package auditlog

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/internal/audit"
	"troupe/messages"
)

// Config configures a Log.
type Config struct {
	Node     string
	File     string // empty: entries go to Log
	Registry prometheus.Registerer
	Log      zerolog.Logger
}

// Log records the actions of a node. It is safe for concurrent use.
type Log struct {
	*audit.Log
	node string

	mu      sync.Mutex
	members map[string]bool // live members that have an entry
}

// Open opens the audit log and registers its metrics.
func Open(cfg Config) (*Log, error) {
	log, err := audit.Open(audit.Config{Node: cfg.Node, File: cfg.File, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	for _, r := range []audit.Result{audit.Done, audit.Failed, audit.Refused} {
		cfg.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "troupe_audit_entries_total",
			Help:        "Audited actions, by result, including those left out of the log.",
			ConstLabels: prometheus.Labels{"result": string(r)},
		}, func() float64 { return float64(log.Entries(r)) }))
	}
	cfg.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "troupe_audit_left_out_total",
		Help: "Audited actions left out of the log: too many at once, or it could not be written.",
	}, func() float64 { return float64(log.Dropped()) }))
	return &Log{Log: log, node: cfg.Node, members: make(map[string]bool)}, nil
}

// Reloaded returns a callback that records the reload of a file.
func (l *Log) Reloaded(what string) func(error) {
	return func(err error) {
		e := audit.Entry{Via: "file", Who: audit.Unknown, Action: "reload", Object: what, Result: audit.Done}
		if err != nil {
			e.Result, e.Reason = audit.Failed, "rejected; see the log" // the error may quote the file
		}
		l.Record(e)
	}
}

// NATSRefused records a request that the NATS server denied.
func (l *Log) NATSRefused(address, what string) {
	l.Record(audit.Entry{
		Via: "nats", Who: audit.Unknown, Address: address,
		Action: "nats.refused", Result: audit.Refused, Reason: what,
	})
}

// Node records an action of this node.
func (l *Log) Node(action string) {
	l.Record(audit.Entry{
		Via: "node", Who: "node:" + l.node, Action: action, Object: l.node, Result: audit.Done,
	})
}

// Members records nodes that joined or left.
func (l *Log) Members(live, left []*messages.Member) {
	record := func(action string, m *messages.Member) {
		l.Record(audit.Entry{
			Via: "node", Who: "node:" + m.GetName(), Address: m.GetAddress(),
			Action: action, Object: m.GetName(), Result: audit.Done,
		})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range left {
		delete(l.members, m.GetName())
		record("member.left", m)
	}
	for _, m := range live {
		if !l.members[m.GetName()] {
			l.members[m.GetName()] = true
			record("member.joined", m)
		}
	}
}
