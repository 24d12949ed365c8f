package membership

import (
	"context"

	"troupe/messages"
)

// LeaseHolders is the registry of members as far as they hold role leases.
type LeaseHolders interface {
	Self() *messages.Member
	Holder(role string) (holder *messages.Member, term uint64, ok bool)
	Roles() []string
	Acquire(ctx context.Context, role string) (term uint64, ok bool, err error)
	Release(ctx context.Context, role string, term uint64) error
}

// Leases implements deployment.Leases with the roles of the members. The planner uses it too.
type Leases struct {
	Node    string // name of this node
	Members LeaseHolders
}

// Holder implements deployment.Leases. A lease that an earlier process of this node held, which the others
// have not declared dead yet, is not this node's: it leads in a term of its own. The holder then has no
// name, but the ID of its member.
func (l Leases) Holder(role string) (member string, term uint64) {
	m, term, ok := l.Members.Holder(role)
	if !ok {
		return "", 0
	}
	if m.GetName() == l.Node && m.GetId() != l.Members.Self().GetId() {
		return m.GetId(), term
	}
	return m.GetName(), term
}

// Roles implements deployment.Leases.
func (l Leases) Roles() []string { return l.Members.Roles() }

// Acquire implements deployment.Leases.
func (l Leases) Acquire(ctx context.Context, role string) (bool, error) {
	_, ok, err := l.Members.Acquire(ctx, role)
	return ok, err
}

// Release implements deployment.Leases.
func (l Leases) Release(ctx context.Context, role string, term uint64) error {
	return l.Members.Release(ctx, role, term)
}
