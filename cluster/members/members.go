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
	kv   *bucketClient
	conn *nats.Conn

	changesSub *nats.Subscription
	connStatus chan nats.Status
	wake       chan struct{} // a turn before its time
	ctx        context.Context
	cancel     context.CancelFunc
	done       chan struct{}

	writeMu sync.Mutex // held while the node's own record is written, and while the bucket is read whole
	address string     // guarded by writeMu; empty: not joined
	leaving bool       // guarded by writeMu
	rival   string     // guarded by writeMu; the member that has this node's name, as last complained of

	notifyMu    sync.Mutex // held while subscribers are told
	notified    viewState
	subscribers []*subscriber

	mu              sync.Mutex // never held across IO, or a call of a subscriber
	view            view
	departed        departed
	health          natsHealth
	self            *messages.Member // nil: not a member, or fenced
	revision        uint64           // of self's record, as it was written last
	stale           bool             // a change was missed: the bucket must be read again
	droppedChanges  int              // republishPrefix that the connection could not keep
	pendingRejoined bool             // to be told
	highestTerm     uint64           // revision of the bucket that is known
	bucketLost      bool             // the bucket is gone, and this node is not in a new one yet
}

type subscriber struct{ notify func(Change) }

// Open opens the bucket, reads it whole and follows it. Close ends that. The connection should be made with
// natsd.ClientOptions: how soon a node is back depends on how soon it connects again.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Members, error) {
	cfg = cfg.withDefaults()
	w, err := openBucket(ctx, js, cfg.Replicas, cfg.TermLimit, cfg.Log)
	if err != nil {
		return nil, err
	}
	if err := w.raiseIfLost(ctx, cfg.SeenTerm, cfg.TermLimit); err != nil {
		return nil, err
	}
	m := &Members{
		cfg: cfg, kv: w, conn: js.Conn(), view: view{}, departed: departed{},
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		health: natsHealth{RenewEvery: cfg.RenewEvery, SilentFor: cfg.SilentFor, Grace: cfg.Grace},
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	if m.changesSub, err = m.conn.Subscribe(republishPrefix+".>", m.onChange); err != nil {
		return nil, fmt.Errorf("changes of KV bucket %s: %w", Bucket, err)
	}
	if err := m.retryTransient(ctx, m.resync); err != nil {
		_ = m.changesSub.Unsubscribe()
		return nil, err
	}
	m.connStatus = m.conn.StatusChanged(nats.CONNECTED)
	go m.run()
	return m, nil
}

// retryTransient asks again while NATS has no leader that could answer, until ctx ends.
func (m *Members) retryTransient(ctx context.Context, ask func(context.Context) error) error {
	for {
		within, cancel := context.WithTimeout(ctx, m.cfg.SilentFor/2)
		err := ask(within)
		cancel()
		if err == nil || ctx.Err() != nil || !bucket.Passing(err) {
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
	m.cancel()
	<-m.done
	_ = m.changesSub.Unsubscribe() // of a closed connection there is none
	m.conn.RemoveStatusListener(m.connStatus)
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

// HighestTerm returns the highestTerm term that this node knows.
func (m *Members) HighestTerm() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.highestTerm
}

// BucketLost reports whether the bucket was deleted, and this node is not in a new one yet.
func (m *Members) BucketLost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bucketLost
}

// RenewalsFailingSince returns since when the bucket takes no renewal of this node; ok is false where it does.
func (m *Members) RenewalsFailingSince() (since time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.health.renewalsFailingSince(time.Now())
}

// MemberAt returns the live member that is reached at an address.
func (m *Members) MemberAt(address string) (*messages.Member, bool) {
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
	m.notifyMu.Lock()
	defer m.notifyMu.Unlock()
	s := &subscriber{f}
	f(Change{Live: m.notified.live, LeasesChanged: len(m.notified.leases) > 0})
	m.subscribers = append(m.subscribers, s)
	return func() {
		m.notifyMu.Lock()
		defer m.notifyMu.Unlock()
		m.subscribers = slices.DeleteFunc(m.subscribers, func(one *subscriber) bool { return one == s })
	}
}

// tell tells the subscribers what decodeChange since they were told last.
func (m *Members) notify() {
	m.notifyMu.Lock()
	defer m.notifyMu.Unlock()
	m.mu.Lock()
	now := m.view.state()
	change, any := now.diff(m.notified)
	change.Rejoined, m.pendingRejoined = m.pendingRejoined, false
	m.mu.Unlock()
	m.notified = now
	if !any && !change.Rejoined {
		return
	}
	for _, s := range m.subscribers {
		s.notify(change)
	}
}

// learn takes in what is known of keys, however it came, and tells what is new.
func (m *Members) update(entries ...entry) {
	news := false
	m.mu.Lock()
	for _, e := range entries {
		news = m.apply(e) || news
		m.highestTerm = max(m.highestTerm, e.revision)
	}
	m.mu.Unlock()
	if news {
		m.notify()
	}
}

// onChange is called with every change of the bucket, in order.
func (m *Members) onChange(msg *nats.Msg) {
	e, previous := m.kv.decodeChange(msg)
	m.mu.Lock()
	missed := m.view.missed(e.key, previous)
	m.stale = m.stale || missed
	fenced := m.self != nil && e.key == memberKey(m.cfg.Name) && e.revision > m.revision && e.memberID() != m.self.GetId()
	m.mu.Unlock()
	m.update(e)
	if missed || fenced {
		m.renewNow()
	}
}

// hurry has the next turn taken at once.
func (m *Members) renewNow() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// raise has terms go on above the highestTerm known one, where the bucket has lost some, and reads it.
func (m *Members) raiseTerms(highest uint64) (all []entry, upTo uint64, err error) {
	ctx, cancel := context.WithTimeout(m.ctx, raiseTimeout)
	defer cancel()
	if err := m.kv.raiseIfLost(ctx, highest, 0); err != nil {
		return nil, 0, err
	}
	return m.kv.snapshot(ctx)
}

// resync reads the bucket whole. The caller holds writeMu, or is alone.
func (m *Members) resync(ctx context.Context) error {
	m.mu.Lock()
	m.stale = false // what is missed from here on is missed again
	highest := m.highestTerm
	m.mu.Unlock()
	all, upTo, err := m.kv.snapshot(ctx)
	if err == nil && upTo < highest {
		all, upTo, err = m.raiseTerms(highest)
	}
	m.mu.Lock()
	if err != nil {
		m.stale = true
		m.mu.Unlock()
		return err
	}
	m.highestTerm = max(m.highestTerm, upTo)
	keys := map[string]bool{}
	for _, e := range all {
		keys[e.key] = e.revision > 0
		m.apply(e)
	}
	m.view.retain(keys, upTo, time.Now())
	m.mu.Unlock()
	m.notify()
	return nil
}
