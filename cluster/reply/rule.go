package reply

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// NodeInbox is the inbox prefix of the nodes' connections, used by JetStream. No user may
	// subscribe below it.
	NodeInbox = "_INBOX_troupe_nodes"
	// PeerInbox is the inbox prefix of requests between nodes. No user may subscribe below it.
	PeerInbox = "_INBOX_troupe_peers"
	// CommonInbox is the inbox prefix of clients that do not choose one.
	CommonInbox = "_INBOX"
	// acrossAccounts is the prefix below which a server expects replies to requests from other
	// accounts. Clients cannot use it: a server rejects their requests with such a reply subject.
	acrossAccounts = "_R_"
	// inboxes starts the first token of each inbox prefix that is read from a file of users.
	inboxes = "_INBOX"
	// longest limits a reply subject, in bytes. Those of clients are shorter than 100 bytes.
	longest = 1024
)

// Rule is the set of reply subjects that are answered. The zero Rule has only the built-in
// prefixes.
type Rule struct{ prefixes []string }

// NewRule returns a rule that also answers below the inbox prefixes of users, such as "_INBOX_anna"
// or "inbox.anna".
func NewRule(prefixes []string) (Rule, error) {
	for _, p := range prefixes {
		if err := CheckPrefix(p); err != nil {
			return Rule{}, err
		}
	}
	return Rule{slices.Clone(prefixes)}, nil
}

// Allows reports whether a node answers to a reply subject.
func (r Rule) Allows(subject string) bool {
	if !literal(subject) || below(subject, NodeInbox) {
		return false
	}
	for _, p := range []string{CommonInbox, PeerInbox, acrossAccounts} {
		if below(subject, p) {
			return true
		}
	}
	return slices.ContainsFunc(r.prefixes, func(p string) bool { return below(subject, p) })
}

// AcrossAccounts reports whether a server made the reply subject for a request of another account.
func AcrossAccounts(subject string) bool { return below(subject, acrossAccounts) }

// CheckPrefix rejects inbox prefixes whose subjects may be used for something else.
func CheckPrefix(p string) error {
	first, _, _ := strings.Cut(p, ".")
	switch {
	case !literal(p):
		return fmt.Errorf("inbox prefix %q: use subject tokens without wildcards and spaces, such as _INBOX_anna", p)
	case overlaps(p, NodeInbox), overlaps(p, PeerInbox):
		return fmt.Errorf("inbox prefix %q is reserved for nodes; choose another, such as _INBOX_anna", p)
	case strings.HasPrefix(first, "$"), first == "troupe", first == acrossAccounts, first == "_GR_":
		return fmt.Errorf(
			"inbox prefix %q: subjects below %s are not inboxes; choose another, such as _INBOX_anna",
			p,
			first,
		)
	}
	return nil
}

// overlaps reports whether the prefixes are equal or one is below the other.
func overlaps(a, b string) bool { return a == b || below(a, b) || below(b, a) }

// below reports whether a subject has all tokens of a prefix and at least one more.
func below(subject, prefix string) bool {
	rest, found := strings.CutPrefix(subject, prefix)
	return found && len(rest) > 1 && rest[0] == '.'
}

// literal reports whether a text is a subject without wildcards, empty tokens and white space.
func literal(subject string) bool {
	if subject == "" || len(subject) > longest {
		return false
	}
	for token := range strings.SplitSeq(subject, ".") {
		if token == "" {
			return false
		}
	}
	return !strings.ContainsFunc(subject, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '*' || r == '>' })
}
