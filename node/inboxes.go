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

// inboxes are the inbox prefixes of NATS users below which this node answers: those that it knows
// itself, by option or by its users file, and those that other members know. A request may reach
// any node, also one that has no users file. It is safe for concurrent use.
type inboxes struct {
	guard *reply.Guard

	mu       sync.Mutex
	own      []string
	others   []string
	announce func(context.Context) error // tells the members; nil: there are none yet
}

// announceWithin bounds how long telling the members may take.
const announceWithin = 5 * time.Second

// here returns the prefixes that this node knows itself.
func (i *inboxes) here() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.own)
}

// setOwn replaces the prefixes that this node knows itself.
func (i *inboxes) setOwn(prefixes []string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, err := reply.NewRule(prefixes); err != nil {
		return err
	}
	i.own = prefixes
	return i.apply()
}

// setMembers takes the prefixes that members know. One that is not valid is left out.
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
	_ = i.apply() // each prefix was checked
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

// openInboxes makes the guard of all requests over NATS.
func (n *Node) openInboxes() error {
	n.guard = reply.NewGuard(reply.Rule{}, n.metrics, n.cfg.Log)
	n.inboxes.guard = n.guard
	return n.readInboxes()
}

// readInboxes reads the prefixes of the users there are.
func (n *Node) readInboxes() error {
	users, err := natsd.LoadUsers(n.cfg.NATSUsers)
	if err != nil {
		return err
	}
	return n.inboxes.setOwn(slices.Concat(n.cfg.NATSInboxPrefixes, reply.Prefixes(users)))
}

// usersChanged follows a change of the users file: this node and the others answer to the inboxes
// of the users that are in it now.
func (n *Node) usersChanged() func(error) {
	reloaded := n.reloaded("NATS users")
	return func(err error) {
		if err == nil {
			err = n.readInboxes()
		}
		reloaded(err)
		if err == nil {
			n.inboxes.tell(n.cfg.Log)
		}
	}
}

// tell tells the members what this node knows.
func (i *inboxes) tell(log zerolog.Logger) {
	i.mu.Lock()
	announce := i.announce
	i.mu.Unlock()
	if announce == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), announceWithin)
	defer cancel()
	if err := announce(ctx); err != nil {
		log.Warn().Err(err).Msg("other nodes do not know of changed NATS users yet")
	}
}

// announceBy sets what tells the members.
func (i *inboxes) announceBy(announce func(context.Context) error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.announce = announce
}
