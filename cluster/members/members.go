package members

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/cluster/bucket"
	"troupe/messages"
)

// Members follows the bucket and, once it has joined, keeps the node's own record alive. It is safe for concurrent use.
type Members struct {
	cfg  Config
	wire *wire
	conn *nats.Conn

	feed   *nats.Subscription
	status chan nats.Status
	wake   chan struct{} // a turn before its time
	life   context.Context
	end    context.CancelFunc
	ended  chan struct{}

	writing sync.Mutex // held while the node's own record is written, and while the bucket is read whole
	address string     // guarded by writing; empty: not joined
	leaving bool       // guarded by writing
	rival   string     // guarded by writing; the member that has this node's name, as last complained of

	telling     sync.Mutex // held while subscribers are told
	told        picture
	subscribers []*subscriber

	mu       sync.Mutex // never held across IO, or a call of a subscriber
	view     view
	departed departed
	contact  contact
	self     *messages.Member // nil: not a member, or fenced
	revision uint64           // of self's record, as it was written last
	behind   bool             // a change was missed: the bucket must be read again
	dropped  int              // changes that the connection could not keep
	rejoined bool             // to be told
	highest  uint64           // revision of the bucket that is known
	lost     bool             // the bucket is gone, and this node is not in a new one yet
}

type subscriber struct{ tell func(Change) }

// Open opens the bucket, reads it whole and follows it. Close ends that. The connection should be made with
// natsd.ClientOptions: how soon a node is back depends on how soon it connects again.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Members, error) {
	cfg = cfg.withDefaults()
	w, err := openWire(ctx, js, cfg.Replicas, cfg.TermLimit, cfg.Log)
	if err != nil {
		return nil, err
	}
	if err := w.raise(ctx, cfg.SeenTerm, cfg.TermLimit); err != nil {
		return nil, err
	}
	m := &Members{
		cfg: cfg, wire: w, conn: js.Conn(), view: view{}, departed: departed{},
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
		contact: contact{RenewEvery: cfg.RenewEvery, SilentFor: cfg.SilentFor, Grace: cfg.Grace},
	}
	m.life, m.end = context.WithCancel(context.Background())
	if m.feed, err = m.conn.Subscribe(changes+".>", m.onChange); err != nil {
		return nil, fmt.Errorf("changes of KV bucket %s: %w", Bucket, err)
	}
	if err := m.patiently(ctx, m.readAll); err != nil {
		_ = m.feed.Unsubscribe()
		return nil, err
	}
	m.status = m.conn.StatusChanged(nats.CONNECTED)
	go m.run()
	return m, nil
}

// patiently asks again while NATS has no leader that could answer, until ctx ends.
func (m *Members) patiently(ctx context.Context, ask func(context.Context) error) error {
	for {
		within, cancel := context.WithTimeout(ctx, m.cfg.SilentFor/2)
		err := ask(within)
		cancel()
		if err == nil || ctx.Err() != nil || !bucket.IsTransient(err) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(m.cfg.RenewEvery / 4):
		}
	}
}

// Close ends everything and writes nothing: to others the node falls silent. Leave says good-bye before.
func (m *Members) Close() {
	m.end()
	<-m.ended
	_ = m.feed.Unsubscribe() // of a closed connection there is none
	m.conn.RemoveStatusListener(m.status)
}

// Self is the node's own record, or nil where it is not a member.
func (m *Members) Self() *messages.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.self
}

// Live returns the members, by name.
func (m *Members) Live() []*messages.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view.live()
}

// Highest returns the highest term that this node knows.
func (m *Members) Highest() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.highest
}

// Lost reports whether the bucket was deleted, and this node is not in a new one yet.
func (m *Members) Lost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost
}

// Unanswered returns since when the bucket takes no renewal of this node; ok is false where it does.
func (m *Members) Unanswered() (since time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.contact.unanswered(time.Now())
}

// Address returns the live member that is reached at an address.
func (m *Members) Address(address string) (*messages.Member, bool) {
	all := m.Live()
	i := slices.IndexFunc(all, func(one *messages.Member) bool { return one.GetAddress() == address })
	if i < 0 {
		return nil, false
	}
	return all[i], true
}

// Subscribe tells f of every change, and at once of what is. Calls come one after the other, in order; f must not block,
// subscribe or cancel.
func (m *Members) Subscribe(f func(Change)) (cancel func()) {
	m.telling.Lock()
	defer m.telling.Unlock()
	s := &subscriber{f}
	f(Change{Live: m.told.live, Leases: len(m.told.leases) > 0})
	m.subscribers = append(m.subscribers, s)
	return func() {
		m.telling.Lock()
		defer m.telling.Unlock()
		m.subscribers = slices.DeleteFunc(m.subscribers, func(one *subscriber) bool { return one == s })
	}
}

// tell tells the subscribers what changed since they were told last.
func (m *Members) tell() {
	m.telling.Lock()
	defer m.telling.Unlock()
	m.mu.Lock()
	now := m.view.picture()
	change, any := now.since(m.told)
	change.Rejoined, m.rejoined = m.rejoined, false
	m.mu.Unlock()
	m.told = now
	if !any && !change.Rejoined {
		return
	}
	for _, s := range m.subscribers {
		s.tell(change)
	}
}

// learn takes in what is known of keys, however it came, and tells what is new.
func (m *Members) learn(entries ...entry) {
	news := false
	m.mu.Lock()
	for _, e := range entries {
		news = m.apply(e) || news
		m.highest = max(m.highest, e.revision)
	}
	m.mu.Unlock()
	if news {
		m.tell()
	}
}

// onChange is called with every change of the bucket, in order.
func (m *Members) onChange(msg *nats.Msg) {
	e, previous := m.wire.changed(msg)
	m.mu.Lock()
	missed := m.view.missed(e.key, previous)
	m.behind = m.behind || missed
	fenced := m.self != nil && e.key == memberKey(m.cfg.Name) && e.revision > m.revision && e.memberID() != m.self.GetId()
	m.mu.Unlock()
	m.learn(e)
	if missed || fenced {
		m.hurry()
	}
}

// hurry has the next turn taken at once.
func (m *Members) hurry() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// raise has terms go on above the highest known one, where the bucket has lost some, and reads it.
func (m *Members) raise(highest uint64) (all []entry, upTo uint64, err error) {
	ctx, cancel := context.WithTimeout(m.life, raiseWithin)
	defer cancel()
	if err := m.wire.raise(ctx, highest, 0); err != nil {
		return nil, 0, err
	}
	return m.wire.snapshot(ctx)
}

// readAll reads the bucket whole. The caller holds writing, or is alone.
func (m *Members) readAll(ctx context.Context) error {
	m.mu.Lock()
	m.behind = false // what is missed from here on is missed again
	highest := m.highest
	m.mu.Unlock()
	all, upTo, err := m.wire.snapshot(ctx)
	if err == nil && upTo < highest {
		all, upTo, err = m.raise(highest)
	}
	m.mu.Lock()
	if err != nil {
		m.behind = true
		m.mu.Unlock()
		return err
	}
	m.highest = max(m.highest, upTo)
	keys := map[string]bool{}
	for _, e := range all {
		keys[e.key] = e.revision > 0
		m.apply(e)
	}
	m.view.retain(keys, upTo, time.Now())
	m.mu.Unlock()
	m.tell()
	return nil
}
