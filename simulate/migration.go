package simulate

import (
	"maps"
	"slices"
	"time"

	"troupe/core/batch"
	"troupe/core/deployment"
	"troupe/core/kv"
	"troupe/core/migrate"
	core "troupe/core/replica"
	"troupe/core/session"
)

// migration migrates sequences from and to a replica, as package migration of the actors. Messages
// between replicas take no time, and are lost if their nodes do not reach each other. Blocks are
// copied over the links of both devices and the network between their nodes.
type migration struct {
	*replica
	source   *migrate.Source
	target   *migrate.Target
	leaving  map[migrate.Key]*leaving
	arriving map[migrate.Key]*arriving
	offer    *arriving // of the message being handled
	resume   resume    // likewise
	closed   bool      // the replica has ended or crashed
}

// leaving is an attempt to migrate a sequence from the replica.
type leaving struct {
	to      migrate.Actor
	command func(to *migration, now time.Time) // last message to the target, which is repeated
	sending *copying                           // nil: no blocks are being sent
}

// arriving is an attempt to migrate a sequence to the replica.
type arriving struct {
	offered
	resume
	reservation *batch.Reservation // nil: the sequence has no blocks
	receiving   *copying           // nil: no blocks are being sent
	heard       time.Time          // when the last blocks arrived
	received    map[uint32]bool    // blocks, by their position
}

// offered is the content of an offer.
type offered struct {
	migrate.OfferedSequence
	request *request
	hashes  []kv.Hash
}

// resume is the content of a request to resume a sequence.
type resume struct {
	output []uint32
	tokens int // computed
}

// newMigration gives the replica a migration that refuses everything until it is open.
func (r *replica) newMigration() {
	r.migration = &migration{replica: r, target: migrate.NewTarget(r.name),
		source: migrate.NewSource(migrate.SourceConfig{Name: r.name, Self: r.migrant(),
			BlockTokens: r.model.BlockTokens, StepTokens: r.model.StepTokens, FirstAttempt: r.incarnation << 16}),
		leaving: make(map[migrate.Key]*leaving), arriving: make(map[migrate.Key]*arriving)}
}

// open allows migrations.
func (m *migration) open() {
	m.source.Open(m.blockBytes())
	m.target.Open(m.shape())
}

// stop ends the migrations of a replica that stops or restarts. The other replicas learn that at
// once.
func (m *migration) stop() {
	now := m.sim.key.at
	for _, k := range slices.SortedFunc(maps.Keys(m.arriving), migrate.CompareKeys) {
		m.reject(m.arriving[k])
	}
	m.perform(m.source.Stop(now))
	m.perform(m.target.Stop(now))
	m.close()
}

// close ends what a replica that has ended was sending.
func (m *migration) close() {
	m.closed = true
	for _, k := range slices.SortedFunc(maps.Keys(m.leaving), migrate.CompareKeys) {
		m.sim.copies.abort(m.leaving[k].sending)
	}
}

// migrant returns the address of the replica.
func (r *replica) migrant() migrate.Actor { return migrate.Actor(r.address()) }

// blockBytes returns the bytes of a block on all devices of the replica.
func (m *migration) blockBytes() int { return int(m.model.blockSize()) * max(1, m.model.Group) }

func (m *migration) shape() migrate.Shape {
	return migrate.Shape{Model: m.model.Name, BlockTokens: m.model.BlockTokens, BlockBytes: m.blockBytes()}
}

// event returns a function that handles an event, unless the replica has ended or crashed by then.
func (m *migration) event(do func(now time.Time)) func() {
	return func() {
		if !m.closed {
			m.touch()
			do(m.sim.key.at)
			m.replica.perform([]core.Effect{core.Advance{}}, m.sim.key.at)
		}
	}
}

// after handles an event after a time.
func (m *migration) after(delay time.Duration, do func(now time.Time)) {
	m.sim.after(delay, m.event(do))
}

// post handles an event once what is going on has been carried out.
func (m *migration) post(do func(now time.Time)) { m.sim.post(m.event(do)) }

// send sends a message to another replica, unless their nodes do not reach each other.
func (m *migration) send(to migrate.Actor, do func(to *migration, now time.Time)) {
	if peer := m.peer(to); peer != nil {
		peer.post(func(now time.Time) { do(peer, now) })
	}
}

// peer returns another replica; nil: it has ended, or is not reached.
func (m *migration) peer(at migrate.Actor) *migration {
	r := m.sim.byAddress(session.Actor(at))
	if r == nil || r.ended || !m.device.node.reaches(r.device.node) {
		return nil
	}
	return r.migration
}

// watch tells the replica that another one has ended, if it has.
func (m *migration) watch(at migrate.Actor) {
	if r := m.sim.byAddress(session.Actor(at)); r == nil {
		m.post(func(now time.Time) { m.lost(at, now) })
	}
}

// lost handles the loss of another replica.
func (m *migration) lost(peer migrate.Actor, now time.Time) {
	m.perform(m.source.Lost(peer, now))
	m.perform(m.target.Lost(peer, now))
}

// losePeer tells the replicas of some nodes that one has ended or is not reached, if they migrate
// sequences from or to it.
func (r *replica) losePeer(hears func(*node) bool) {
	at := r.migrant()
	for _, other := range r.model.replicas {
		if m := other.migration; other != r && hears(other.device.node) && (m.source.Uses(at) || m.target.Uses(at)) {
			m.post(func(now time.Time) { m.lost(at, now) })
		}
	}
}

// migrate begins the migration of sequences to another replica, as the deployment has commanded.
func (m *migration) migrate(e deployment.MigrateSequences) {
	var all []string
	for _, q := range m.assigned() {
		all = append(all, q.id)
	}
	m.perform(m.source.Command(migrate.Command{RequestID: e.Request, From: m.migrant(), Target: e.Target,
		To: migrate.Actor(e.TargetActor), Cause: e.Cause}, all))
	m.replica.perform([]core.Effect{core.Advance{}}, m.sim.key.at)
}

// between does the work that waited for the end of a step.
func (m *migration) between() {
	now := m.sim.key.at
	if ids := m.source.Pausing(); ids != nil {
		m.perform(m.source.StepEnded(m.describe(ids), now))
	}
	if ids := m.source.Waiting(); ids != nil {
		m.perform(m.source.Start(m.describe(ids), now))
	}
	m.answerOffers()
}

// answerOffers answers the offers that wait, unless a step is in flight.
func (m *migration) answerOffers() {
	ids := m.target.Postponed()
	if ids == nil || m.machine.Stepping() {
		return
	}
	here := slices.DeleteFunc(ids, func(id string) bool { return !m.machine.Has(id) })
	m.perform(m.target.StepEnded(m.own(), here, m.sim.key.at))
}

// busy reports whether something waits for the end of a step.
func (m *migration) busy() bool {
	return m.source.Pausing() != nil || m.source.Waiting() != nil || m.postponed() > 0
}

// postponed returns the number of offers that wait.
func (m *migration) postponed() int { return len(m.target.Postponed()) }

// performReplica carries out an effect of the replica's machine that concerns migrations.
func (m *migration) performReplica(effect core.Effect) {
	switch e := effect.(type) {
	case core.Open:
		m.open()
	case core.Close:
		m.stop()
	case core.Claimed:
		m.target.Claim(e.ID, m.sim.key.at)
	case core.Drop:
		m.cancel(e.ID, e.Why)
	case core.Preempted:
		m.cancel(e.ID, "preempted: "+e.Why)
	case core.AnswerOffers:
		m.answerOffers()
	}
}

// cancel aborts the migration of a sequence, if there is one.
func (m *migration) cancel(id, why string) {
	if m.source.Migrating(id) {
		m.perform(m.source.Cancel(id, why, m.sim.key.at))
	}
}

// describe returns the state of sequences on which the decisions of the source depend.
func (m *migration) describe(ids []string) (all []migrate.Sequence) {
	for _, id := range ids {
		s := migrate.Sequence{ID: id}
		if m.machine.Has(id) && m.sim.requests[id] != nil {
			state, _ := m.machine.Batch().State(id)
			s.Here, s.Queued, s.InFlight = true, state != batch.Running, m.machine.InStep(id)
			s.Progress, _ = m.machine.Batch().Progress(id)
		}
		all = append(all, s)
	}
	return all
}

// own returns the state of the replica on which the decisions of the target depend.
func (m *migration) own() migrate.Own {
	own := migrate.Own{Context: m.machine.Context()}
	switch {
	case m.machine.Accepting() == nil:
		own.Mode = migrate.Serving
	case m.machine.Leaving():
		own.Mode = migrate.Draining
	}
	return own
}
