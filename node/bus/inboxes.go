package bus

import (
	"context"
	"slices"
	"sync"
	"time"

	"troupe/cluster/reply"
	"troupe/messages"
)

// inboxes holds the inbox prefixes of NATS users that this node replies to: its own prefixes, from
// its options and its users file, and those of the other members. The other prefixes are needed
// because a request may reach any node, even one without a users file. It is safe for concurrent
// use.
type inboxes struct {
	guard *reply.Guard

	mu       sync.Mutex
	own      []string
	others   []string
	announce func(context.Context) error // announces this node's prefixes; nil: the node is not a member yet
}

// announceTimeout is the maximum duration of an announcement.
const announceTimeout = 5 * time.Second

// setOwn replaces the prefixes from this node's options and users file.
func (i *inboxes) setOwn(prefixes []string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, err := reply.NewRule(prefixes); err != nil {
		return err
	}
	i.own = prefixes
	return i.apply()
}

func (i *inboxes) apply() error {
	all := slices.Concat(i.own, i.others)
	slices.Sort(all)
	rule, err := reply.NewRule(slices.Compact(all))
	if err == nil {
		i.guard.Replace(rule)
	}
	return err
}

// InboxPrefixes returns the prefixes from this node's options and users file.
func (b *Bus) InboxPrefixes() []string {
	b.inboxes.mu.Lock()
	defer b.inboxes.mu.Unlock()
	return slices.Clone(b.inboxes.own)
}

// SetMembers replaces the inbox prefixes of the other members. It omits invalid ones.
func (b *Bus) SetMembers(live []*messages.Member) {
	i := &b.inboxes
	i.mu.Lock()
	defer i.mu.Unlock()
	i.others = nil
	for _, m := range live {
		for _, p := range m.GetInboxPrefixes() {
			if reply.CheckPrefix(p) == nil {
				i.others = append(i.others, p)
			}
		}
	}
	_ = i.apply() // cannot fail: each prefix is valid
}

// SetAnnounce sets the function that announces this node's inbox prefixes.
func (b *Bus) SetAnnounce(announce func(context.Context) error) {
	b.inboxes.mu.Lock()
	defer b.inboxes.mu.Unlock()
	b.inboxes.announce = announce
}

// announceInboxes announces this node's own prefixes to the other members.
func (b *Bus) announceInboxes() {
	b.inboxes.mu.Lock()
	announce := b.inboxes.announce
	b.inboxes.mu.Unlock()
	if announce == nil {
		return
	}
	ctx, cancel := b.cfg.Runtime.WithTimeout(context.Background(), announceTimeout)
	defer cancel()
	if err := announce(ctx); err != nil {
		b.cfg.Log.Warn().Err(err).Msg("cannot announce changed NATS users to the other nodes")
	}
}
