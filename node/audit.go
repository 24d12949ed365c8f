package node

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"troupe/internal/audit"
	"troupe/messages"
)

// openAudit opens the audit log and registers its metrics.
func (n *Node) openAudit(context.Context) (err error) {
	if n.audit, err = audit.Open(audit.Config{Node: n.cfg.Name, File: n.cfg.AuditLog, Log: n.cfg.Log}); err != nil {
		return err
	}
	n.closers = append(n.closers, n.audit.Close)
	for _, r := range []audit.Result{audit.Done, audit.Failed, audit.Refused} {
		n.metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "troupe_audit_entries_total",
			Help:        "Audited actions, by result, including those left out of the log.",
			ConstLabels: prometheus.Labels{"result": string(r)},
		}, func() float64 { return float64(n.audit.Entries(r)) }))
	}
	n.metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "troupe_audit_left_out_total",
		Help: "Audited actions left out of the log: too many at once, or it could not be written.",
	}, func() float64 { return float64(n.audit.Dropped()) }))
	if n.cfg.Keys != nil {
		n.cfg.Keys.OnChange(n.auditReload("API keys"))
	}
	if n.cfg.TLS != nil {
		n.cfg.TLS.OnChange(n.auditReload("certificates"))
	}
	return nil
}

// auditReload returns a callback that records the reload of a file.
func (n *Node) auditReload(what string) func(error) {
	return func(err error) {
		e := audit.Entry{Via: "file", Who: audit.Unknown, Action: "reload", Object: what, Result: audit.Done}
		if err != nil {
			e.Result, e.Reason = audit.Failed, "rejected; see the log" // the error may quote the file
		}
		n.audit.Record(e)
	}
}

// auditNATSRefusal records a request that the NATS server denied.
func (n *Node) auditNATSRefusal(address, what string) {
	n.audit.Record(audit.Entry{
		Via: "nats", Who: audit.Unknown, Address: address,
		Action: "nats.refused", Result: audit.Refused, Reason: what,
	})
}

// auditNode records an action of this node.
func (n *Node) auditNode(action string) {
	n.audit.Record(audit.Entry{
		Via: "node", Who: "node:" + n.cfg.Name, Action: action, Object: n.cfg.Name, Result: audit.Done,
	})
}

// auditMembers records nodes that joined or left.
func (n *Node) auditMembers(live, left []*messages.Member) {
	record := func(action string, m *messages.Member) {
		n.audit.Record(audit.Entry{
			Via: "node", Who: "node:" + m.GetName(), Address: m.GetAddress(),
			Action: action, Object: m.GetName(), Result: audit.Done,
		})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range left {
		delete(n.auditedMembers, m.GetName())
		record("member.left", m)
	}
	for _, m := range live {
		if !n.auditedMembers[m.GetName()] {
			n.auditedMembers[m.GetName()] = true
			record("member.joined", m)
		}
	}
}
