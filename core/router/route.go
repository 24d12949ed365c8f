package router

import (
	"slices"
	"time"

	"troupe/core/kv"
	"troupe/core/route"
)

// Request is a request for a replica.
type Request struct {
	ID       string
	Model    string
	Adapter  string   // name and revision; empty: none
	Prompt   []uint32 // tokens of the prompt and of the output so far
	Salt     []byte   // salt of the client's KV blocks
	Avoid    []string // replicas that the session has lost
	Revision string   // digest of the files that computed the output so far; empty: any
	Cause    string   // why the request is routed again
}

// Routed is the replica for a request.
type Routed struct {
	Replica     string
	Node        string
	Actor       Actor
	Incarnation uint64
}

// Route returns the replica that is expected to serve a request soonest, or a refusal. It logs the
// decision.
func (m *Machine) Route(r Request, now time.Time) (Routed, Refusal) {
	m.age(now)
	t := m.models[r.Model]
	var d route.Decision
	if _, stored := m.stored[r.Model]; t != nil && (stored || m.phase == Starting) {
		d = t.routes.Route(route.Request{
			ID: r.ID, Hashes: t.fingerprints(r), Tokens: len(r.Prompt), Avoid: m.avoided(t, r.Avoid),
			Adapter: r.Adapter, Revision: r.Revision,
		})
	}
	if !d.OK {
		refusal := m.refusal(r.Model, r.Revision != "")
		if t != nil && m.weightsReplaced(r, t) {
			refusal = weightsReplaced(r.Model)
		}
		if n := d.Counts[route.IsFaulty]; n > 0 && refusal.Reason == NotReady {
			refusal = allFaulty(r.Model, n)
		}
		m.log.add(r.ID, Entry{Time: now, Decision: d, Refusal: refusal, Cause: r.Cause})
		return Routed{}, refusal
	}
	m.log.add(r.ID, Entry{Time: now, Decision: d, Cause: r.Cause})
	to := t.replicas[d.Name]
	return Routed{d.Name, to.node, to.actor, to.incarnation}, Refusal{}
}

// avoided returns the replicas that serve a request only if no other can: those that its session
// lost, and those on avoided nodes.
func (m *Machine) avoided(t *model, lost []string) []string {
	if len(m.avoid) == 0 {
		return lost
	}
	all := slices.Clone(lost)
	for name, r := range t.replicas {
		if m.avoid[r.node] {
			all = append(all, name)
		}
	}
	slices.Sort(all[len(lost):])
	return all
}

// fingerprints returns the fingerprints of a prompt's blocks, as replicas announce them.
func (t *model) fingerprints(r Request) []uint64 {
	if t.blockTokens == 0 {
		return nil
	}
	return kv.Fingerprints(kv.Hashes(kv.Root(r.Model, r.Adapter, r.Salt), r.Prompt, t.blockTokens))
}

// weightsReplaced reports whether the files that computed a request's output are no longer served
// or deployed.
func (m *Machine) weightsReplaced(r Request, t *model) bool {
	deployed := m.stored[r.Model].Revision
	return r.Revision != "" && deployed != "" && deployed != r.Revision && !t.routes.HasRevision(r.Revision)
}
