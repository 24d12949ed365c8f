package remote

import "troupe/core/kv"

// The actions of the table. Each runs before its object enters the next state.

func (m *Machine) nothing(event) {}

func (m *Machine) ask(e event) {
	m.lookups[e.id] = lookup{e.from, e.blocks, e.now}
	m.emit(AskRouter{})
}

func (m *Machine) answerEmpty(e event) { m.emit(AnswerFind{To: e.from, ID: e.id}) }

func (m *Machine) answerFind(e event) {
	l := m.lookups[e.id]
	paths := make([]kv.Path, len(e.runs))
	for i, run := range e.runs {
		first := min(run.First, len(l.blocks))
		m.fetcher.MarkAvailable(l.blocks[first:min(first+run.Blocks, len(l.blocks))], e.now)
		paths[i] = m.fetcher.Path(run.Name, e.now)
	}
	m.emit(AnswerFind{l.from, e.id, paths})
}

func (m *Machine) refuseMalformed(e event) {
	m.emit(Refuse{To: e.from, ID: e.id, Reason: Invalid, Detail: e.request.Malformed})
}

func (m *Machine) refuseFull(e event) {
	m.emit(Refuse{To: e.from, ID: e.id, Reason: QueueFull, RetryAfter: retryDelay,
		Detail: e.detail + "; compute the blocks, or raise the limit with --kv-remote"})
}

func (m *Machine) keep(e event) {
	m.fetches[e.id] = &fetch{from: e.from, holder: e.request.Holder, deadline: e.now.Add(e.request.Within)}
	m.emit(Keep{e.id})
}

func (m *Machine) lease(e event) {
	f := m.fetches[e.id]
	m.emit(Lease{e.id, f.holder, f.deadline.Sub(e.now)})
}

func (m *Machine) replaceRequester(e event) { m.fetches[e.id].from = e.from }

func (m *Machine) release(e event) { m.emit(Release{e.id, m.fetches[e.id].holder}) }

func (m *Machine) forget(e event) { m.emit(Forget{e.id}) }

// refuse answers a fetch with a refusal.
func (m *Machine) refuse(e event, why Reason, detail string) {
	m.emit(Refuse{To: m.fetches[e.id].from, ID: e.id, Reason: why, Detail: detail})
	m.forget(e)
}

func (m *Machine) refuseLate(e event) {
	m.refuse(e, DeadlinePassed, "no capacity for the fetch before its deadline; raise the limit with --kv-remote")
}

func (m *Machine) refuseFailed(e event) { m.refuse(e, Internal, e.detail) }

func (m *Machine) refuseStopped(e event) {
	m.refuse(e, NotReady, "the remote tier is stopping or restarting; compute the blocks, or retry")
}

func (m *Machine) releaseStopped(e event) {
	m.release(e)
	m.refuseStopped(e)
}

func (m *Machine) releaseAbandoned(e event) {
	m.release(e)
	m.forget(e)
}

func (m *Machine) answerSent(e event) {
	m.emit(AnswerFetch{m.fetches[e.id].from, e.id, e.count})
	m.forget(e)
}

func (m *Machine) relay(e event) {
	m.emit(Relay{m.fetches[e.id].from, e.id})
	m.forget(e)
}
