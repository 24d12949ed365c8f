package replica

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"troupe/core/batch"
	"troupe/core/kv"
	"troupe/core/lora"
)

const (
	retryRequestAfter = time.Second            // delay before an unanswered request of the startup is repeated
	reportEvery       = 100 * time.Millisecond // minimum time between two load reports
	checkFolderEvery  = 5 * time.Second        // between two checks of the model folder
)

// Start starts the replica.
func (m *Machine) Start(now time.Time) []Effect { return m.on(event{kind: evStart, now: now}) }

// Loaded reports that the device has the weights in memory.
func (m *Machine) Loaded(model Model, now time.Time) []Effect {
	return m.on(event{kind: evLoaded, model: &model, now: now})
}

// LoadRefused reports that the device refused to load the weights, temporarily or permanently.
// found is the revision that it found instead of the requested one.
func (m *Machine) LoadRefused(why Refusal, found string, now time.Time) []Effect {
	return m.on(event{kind: evLoadRefused, refusal: why, id: found, now: now})
}

// Adopted reports the blocks whose content an earlier incarnation left.
func (m *Machine) Adopted(resident []kv.Committed, now time.Time) []Effect {
	return m.on(event{kind: evAdopted, resident: resident, now: now})
}

// EngineReady reports that the engine started, or restarted after a crash that lost the step in
// flight. A step can run again, because it writes only to its own KV slots and samples as a
// function of seed and position. crashed is the step that the engine had begun; 0 if it had begun
// none.
func (m *Machine) EngineReady(crashed uint64, c Capture, now time.Time) []Effect {
	return m.on(event{kind: evEngineReady, number: crashed, capture: c, now: now})
}

// ConfirmRevision reports the revision that the deployment serves.
func (m *Machine) ConfirmRevision(digest string, now time.Time) []Effect {
	return m.on(event{kind: evConfirmed, id: digest, now: now})
}

// Standby tells the replica to finish its sequences, to accept no more, and to keep the weights. It
// stays on standby over restarts until Activate.
func (m *Machine) Standby(now time.Time) []Effect { return m.on(event{kind: evStandby, now: now}) }

// Activate tells the replica to serve, now or once it has started.
func (m *Machine) Activate(now time.Time) []Effect { return m.on(event{kind: evActivate, now: now}) }

// Drain tells the replica to finish its sequences and to accept no more.
func (m *Machine) Drain(now time.Time) []Effect { return m.on(event{kind: evDrain, now: now}) }

// Stop reports that the actor stops or restarts.
func (m *Machine) Stop() []Effect { return m.on(event{kind: evStop}) }

// Folder is the condition of a model folder.
type Folder struct {
	Fault     string // why the replica could not be loaded again from it; empty: it is intact
	Elsewhere string // with a fault: the source that the replica would be loaded from; empty: there is none
}

// reported returns the fault to report to the deployment. A missing folder is no fault as long as the weights
// can be loaded from elsewhere.
func (f Folder) reported() string {
	if f.Elsewhere != "" {
		return ""
	}
	return f.Fault
}

// FolderChecked reports the result of a check of the model folder.
func (m *Machine) FolderChecked(f Folder, now time.Time) []Effect {
	return m.on(event{kind: evFolderChecked, folder: f, now: now})
}

// Fired reports that a timer fired.
func (m *Machine) Fired(t Timer, offers int, now time.Time) []Effect {
	switch t {
	case RetryTimer:
		return m.on(event{kind: evRetry, now: now})
	case FolderTimer:
		return m.on(event{kind: evCheckFolder})
	case KVTimer:
		return m.on(event{kind: evReportKV, now: now})
	case WatchTimer:
		return m.on(event{kind: evWatch, now: now})
	case LeaseTimer:
		return m.on(event{kind: evRetryLease})
	case AnnounceTimer:
		m.announceIfDue(now)
	case ReportTimer:
		m.reporting = false
		m.publish(now)
	case AdapterTimer:
		m.adapterTimer(offers)
	}
	return m.take()
}

func (m *Machine) start(e *event) {
	if m.cfg.Router {
		m.add(SetTimer{AnnounceTimer, announceEvery})
	}
	m.enter(e.now)
	if m.cfg.Incarnation > 1 {
		m.noTurn(e)
	}
	m.load(e)
}

// enter reports a change of the state that other actors see.
func (m *Machine) enter(now time.Time) {
	m.add(StateChanged{m.state})
	m.publish(now)
}

func (m *Machine) load(*event) { m.add(LoadModel{}, SetTimer{RetryTimer, retryRequestAfter}) }

func (m *Machine) adopt(*event) { m.add(AdoptBlocks{}, SetTimer{RetryTimer, retryRequestAfter}) }

func (m *Machine) awaitConfirm(e *event) {
	m.publish(e.now)
	m.add(SetTimer{RetryTimer, retryRequestAfter})
}

func (m *Machine) loaded(e *event) {
	m.model = *e.model
	m.add(KeepModel{Fresh: !m.model.Adopted})
	if !m.revisionConfirmed() {
		m.publish(e.now)
	}
	m.adopt(e)
}

func (m *Machine) loadRefused(e *event) {
	m.foundRevision = e.id
	m.add(KeepFailure{})
	m.enter(e.now)
}

// adopted creates the pool with the adopted blocks, and the scheduler.
func (m *Machine) adopted(e *event) {
	m.pool = kv.NewPool(m.model.Blocks, m.cfg.BlockTokens)
	m.announcer = kv.NewAnnouncer(announceBytes, m.model.Blocks*fingerprintBytes)
	for _, b := range e.resident {
		if m.pool.Recover(b.Block, b.Hash) {
			m.announcer.Apply(nil, []kv.Committed{b})
		}
	}
	m.context = m.contextLimit(m.model.Blocks)
	m.batch = batch.New(batch.Limits{MaxSequences: m.cfg.MaxSequences, MaxWaiting: m.cfg.MaxWaiting,
		StepTokens: m.cfg.StepTokens, ContextTokens: m.context}, m.pool)
	if m.cfg.MaxAdapters > 0 {
		m.pins, m.failedPins = lora.NewPinClient(fmt.Sprint(m.cfg.Incarnation)), make(map[string]string)
		m.batch.UseAdapters(lora.Policy{MaxAdapters: m.cfg.MaxAdapters, Lookahead: adapterLookahead,
			MaxWait: adapterMaxWait}, m.pins)
	}
	m.add(Open{})
	m.raise(event{kind: evMapped, now: e.now})
}

func (m *Machine) engineReady(e *event) {
	m.engine = Engine{Since: e.now, Capture: e.capture}
	m.raise(event{kind: evEngineUp, number: e.number, now: e.now})
}

func (m *Machine) engineServes(e *event) {
	m.engineReady(e)
	m.serve(e)
}

func (m *Machine) serve(e *event) {
	m.enter(e.now)
	m.sendKVReport()
	m.add(Advance{})
	if m.cfg.CheckFolder && m.model.RevisionDigest != "" {
		m.add(SetTimer{FolderTimer, checkFolderEvery})
	}
}

// revisionConfirmed reports whether the loaded files are those that the deployment serves: they
// were requested by digest, the deployment has confirmed them, or they have no digest.
func (m *Machine) revisionConfirmed() bool { return m.confirms(m.confirmed) }

// confirms reports whether a confirmation of the digest allows the replica to serve.
func (m *Machine) confirms(digest string) bool {
	own := m.model.RevisionDigest
	return own == "" || own == m.cfg.Revision || own == digest
}

// confirm records a confirmed revision. It remains valid for later incarnations, which adopt the
// loaded weights.
func (m *Machine) confirm(e *event) {
	m.confirmed = e.id
	m.add(KeepRevision{e.id})
}

func (m *Machine) confirmServes(e *event) {
	m.confirm(e)
	m.serve(e)
}

func (m *Machine) drainServing(e *event) {
	m.dropCanary()
	m.enter(e.now)
	m.drainRequested(e)
}

func (m *Machine) drainRequested(*event) {
	m.drain = true
	m.add(Advance{})
}

func (m *Machine) checkFolder(*event) { m.add(CheckFolder{m.model.RevisionDigest}) }

func (m *Machine) folderChecked(*event) { m.add(SetTimer{FolderTimer, checkFolderEvery}) }

// folderChanged reports that the model's files are damaged or missing, or intact again. The replica
// continues to serve.
func (m *Machine) folderChanged(e *event) {
	m.folderChecked(e)
	m.folder = e.folder
	m.add(FolderChanged{e.folder})
	m.reportSoon()
}

// stop interrupts all sequences. Submissions that arrive while the engine stops are refused.
func (m *Machine) stop(*event) {
	m.add(Close{})
	for _, id := range slices.Sorted(maps.Keys(m.sequences)) {
		m.add(Interrupt{id, Refusal{NotReady, m.title() + " is stopping or restarting", RetryAfter}})
	}
	clear(m.sequences)
	m.raise(event{kind: evHalt})
}
