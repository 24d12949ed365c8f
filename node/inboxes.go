package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"troupe/cluster/natsd"
	"troupe/cluster/reply"
	"troupe/messages"
)

// inboxes are the inbox prefixes of NATS users that this node replies to: its own ones, from
// options and its users file, and those of the other members. A request may reach any node, even
// one without a users file. It is safe for concurrent use.
type inboxes struct {
	guard *reply.Guard

	mu       sync.Mutex
	own      []string
	others   []string
	announce func(context.Context) error // announces the prefixes; nil: not a member yet
}

// announceTimeout bounds how long an announcement may take.
const announceTimeout = 5 * time.Second

// ownPrefixes returns the prefixes from this node's options and users file.
func (i *inboxes) ownPrefixes() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.own)
}

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

// setMembers replaces the prefixes of the other members. It leaves out invalid ones.
func (i *inboxes) setMembers(live []*messages.Member) {
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

func (i *inboxes) apply() error {
	all := slices.Concat(i.own, i.others)
	slices.Sort(all)
	rule, err := reply.NewRule(slices.Compact(all))
	if err == nil {
		i.guard.Replace(rule)
	}
	return err
}

// openInboxes creates the guard of all requests over NATS.
func (n *Node) openInboxes() error {
	n.guard = reply.NewGuard(reply.Rule{}, n.metrics, n.cfg.Log)
	n.inboxes.guard = n.guard
	return n.readInboxes()
}

// readInboxes reads the prefixes of the users in the users file.
func (n *Node) readInboxes() error {
	users, err := natsd.LoadUsers(n.cfg.NATSUsers)
	if err != nil {
		return err
	}
	return n.inboxes.setOwn(slices.Concat(n.cfg.NATSInboxPrefixes, reply.Prefixes(users)))
}

// usersChanged returns the callback for a change of the users file. It makes all nodes reply to the
// inboxes of the new users.
func (n *Node) usersChanged() func(error) {
	reloaded := n.auditReload("NATS users")
	return func(err error) {
		if err == nil {
			err = n.readInboxes()
		}
		reloaded(err)
		if err == nil {
			n.inboxes.announceToMembers(n.cfg.Log)
		}
	}
}

// announceToMembers announces this node's own prefixes to the other members.
func (i *inboxes) announceToMembers(log zerolog.Logger) {
	i.mu.Lock()
	announce := i.announce
	i.mu.Unlock()
	if announce == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), announceTimeout)
	defer cancel()
	if err := announce(ctx); err != nil {
		log.Warn().Err(err).Msg("cannot announce changed NATS users to the other nodes")
	}
}

// setAnnounce sets the function that announces this node's prefixes.
func (i *inboxes) setAnnounce(announce func(context.Context) error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.announce = announce
}
