package members

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"troupe/actors/supervise"
	"troupe/cluster/bucket"
	"troupe/messages"
)

// Members follows the bucket and, after Join, renews the node's own record. It is safe for
// concurrent use.
type Members struct {
	cfg Config
	kv  *bucketClient

	changesSub    bucket.Subscription
	stopConnected func()
	wake          chan struct{} // has a capacity of one; requests a tick at once
	ctx           context.Context
	cancel        context.CancelFunc
	done          chan struct{}

	writeMu     *supervise.Lock // held while the own record is written or the whole bucket is read
	address     string          // guarded by writeMu; empty if not joined
	leaving     bool            // guarded by writeMu
	incarnation uint64          // guarded by writeMu; the latest of this node
	rival       string          // guarded by writeMu; ID of the last logged member with the name of this node

	notifyMu    sync.Mutex // held while subscribers are notified
	notified    viewState
	subscribers []*subscriber

	mu              sync.Mutex // never held during I/O or a call of a subscriber
	view            view
	departed        departed
	health          natsHealth
	self            *messages.Member // nil if not a member, or fenced
	revision        uint64           // of self's record as last written
	stale           bool             // a change was missed and the bucket must be read again
	droppedChanges  int              // number of changes that the subscription has dropped
	renewAsked      bool             // a renewal was requested
	ticked          time.Time        // when the timer of ticks fired; zero: it has not since the last tick
	pendingRejoined bool             // Rejoined for the next notification
	highestTerm     uint64           // highest known revision of the bucket
	bucketLost      bool             // the bucket is gone, and this node has no record in a new one yet
}

type subscriber struct{ notify func(Change) }

// Open opens the bucket, reads it and follows it until Close. The connection should be made with
// natsd.ClientOptions, because the time to rejoin depends on how fast it reconnects.
func Open(ctx context.Context, c bucket.Client, cfg Config) (*Members, error) {
	cfg = cfg.withDefaults()
	kv, err := openBucket(ctx, c, cfg.TermLimit, cfg.Runtime, cfg.Log)
	if err != nil {
		return nil, err
	}
	if err := kv.raiseIfLost(ctx, cfg.SeenTerm, cfg.TermLimit); err != nil {
		return nil, err
	}
	m := &Members{
		cfg: cfg, kv: kv, view: view{}, departed: departed{}, writeMu: supervise.NewLock(cfg.Runtime),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		health: natsHealth{RenewEvery: cfg.RenewEvery, SilentFor: cfg.SilentFor, Grace: cfg.Grace},
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	if m.changesSub, err = c.Subscribe(republishPrefix+".>", m.onChange); err != nil {
		return nil, fmt.Errorf("subscribe to changes of KV bucket %s: %w", Bucket, err)
	}
	if err := m.retryTransient(ctx, m.resync); err != nil {
		_ = m.changesSub.Unsubscribe()
		return nil, err
	}
	m.stopConnected = c.OnConnected(m.reconnected)
	cfg.Runtime.Go(m.run)
	return m, nil
}

func (m *Members) now() time.Time { return m.cfg.Runtime.Now() }

// retryTransient retries ask until ctx ends, as long as NATS has no leader that could answer.
func (m *Members) retryTransient(ctx context.Context, ask func(context.Context) error) error {
	for {
		within, cancel := m.cfg.Runtime.WithTimeout(ctx, m.cfg.SilentFor/2)
		err := ask(within)
		cancel()
		if err == nil || ctx.Err() != nil || !bucket.IsTransient(err) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-m.cfg.Runtime.After(m.cfg.RenewEvery / 4):
		}
	}
}

// Close ends the background work and writes nothing, so that other nodes see the node fall silent.
// To leave the cluster properly, call Leave first.
func (m *Members) Close() {
	m.cancel()
	<-m.done
	_ = m.changesSub.Unsubscribe() // fails if the connection is closed
	m.stopConnected()
}

// Self returns the node's own record, or nil if it is not a member.
func (m *Members) Self() *messages.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.self
}

// Live returns the live members, ordered by name.
func (m *Members) Live() []*messages.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view.live()
}

// HighestTerm returns the highest term that this node knows.
func (m *Members) HighestTerm() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.highestTerm
}

// BucketLost reports whether the bucket was deleted and this node has no record in a new one yet.
func (m *Members) BucketLost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bucketLost
}

// RenewalsFailingSince returns the time since which renewals of this node fail. ok is false if they
// succeed, or if the failure lasts no longer than an election takes.
func (m *Members) RenewalsFailingSince() (since time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.health.renewalsFailingSince(m.now())
}

// Subscribe calls f at once with the current state, and then for every change. Calls are made one
// at a time and in order. f must not block, subscribe or cancel.
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

// notify passes the changes since the last notification to the subscribers.
func (m *Members) notify() {
	m.notifyMu.Lock()
	defer m.notifyMu.Unlock()
	m.mu.Lock()
	now := m.view.state()
	change, changed := now.diff(m.notified)
	change.Rejoined, m.pendingRejoined = m.pendingRejoined, false
	m.mu.Unlock()
	m.notified = now
	if !changed && !change.Rejoined {
		return
	}
	for _, s := range m.subscribers {
		s.notify(change)
	}
}

// update applies new revisions of keys and notifies the subscribers of changes.
func (m *Members) update(entries ...entry) {
	changed := false
	m.mu.Lock()
	for _, e := range entries {
		changed = m.apply(e) || changed
		m.highestTerm = max(m.highestTerm, e.revision)
	}
	m.mu.Unlock()
	if changed {
		m.notify()
	}
}

// onChange is called for every change of the bucket, in order.
func (m *Members) onChange(msg *nats.Msg) {
	e, previous := m.kv.decodeChange(msg)
	m.mu.Lock()
	missed := m.view.missed(e.key, previous)
	m.stale = m.stale || missed
	fenced := m.self != nil && e.key == memberKey(m.cfg.Name) && e.revision > m.revision &&
		e.memberID() != m.self.GetId()
	m.mu.Unlock()
	m.update(e)
	if missed || fenced {
		m.renewNow()
	}
}

// renewNow requests a tick, with a renewal, at once.
func (m *Members) renewNow() {
	m.mu.Lock()
	m.renewAsked = true
	m.mu.Unlock()
	m.tickNow()
}

// tickNow requests a tick at once.
func (m *Members) tickNow() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// raiseTerms makes terms continue above the highest known term if the bucket has lost some. It
// returns the contents of the bucket.
func (m *Members) raiseTerms(highest uint64) (all []entry, upTo uint64, err error) {
	ctx, cancel := m.cfg.Runtime.WithTimeout(m.ctx, raiseTimeout)
	defer cancel()
	if err := m.kv.raiseIfLost(ctx, highest, 0); err != nil {
		return nil, 0, err
	}
	return m.kv.snapshot(ctx)
}

// resync reads the whole bucket. The caller holds writeMu or has exclusive access to m.
func (m *Members) resync(ctx context.Context) error {
	m.mu.Lock()
	m.stale = false // changes missed from here on set it again
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
	m.view.retain(keys, upTo, m.now())
	m.mu.Unlock()
	m.notify()
	return nil
}
