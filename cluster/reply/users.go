package reply

import (
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// Prefixes returns the inbox prefixes of a server's users. These are the subjects in the users'
// subscribe permissions that begin with _INBOX and end with the wildcard >. CommonInbox and the
// prefixes of nodes are left out.
func Prefixes(opts *server.Options) (all []string) {
	add := func(p *server.Permissions) {
		if p == nil || p.Subscribe == nil {
			return
		}
		for _, subject := range p.Subscribe.Allow {
			prefix, open := strings.CutSuffix(subject, ".>")
			if open && strings.HasPrefix(prefix, inboxes) && prefix != CommonInbox && CheckPrefix(prefix) == nil {
				all = append(all, prefix)
			}
		}
	}
	for _, u := range opts.Users {
		add(u.Permissions)
	}
	for _, u := range opts.Nkeys {
		add(u.Permissions)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
