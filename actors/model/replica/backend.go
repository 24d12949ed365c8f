package replica

import (
	"troupe/core/backend"
	"troupe/messages"
)

// backendOf returns the kind of backend that a spec describes, and what it can do.
func backendOf(spec *messages.ReplicaSpec) (backend.Kind, backend.Set) {
	s := backend.SpecOf(spec.GetEngine().GetKind(), spec.GetEngine().GetWithout())
	return s.Kind, s.Capabilities()
}

// limit leaves out what the backend cannot do.
func (c Config) limit(can backend.Set) Config {
	if !can.Has(backend.Adapters) {
		c.Adapters = nil
	}
	if !can.Has(backend.KVTiers) {
		c.Tiers = Tiers{}
	}
	if !can.Has(backend.KVMigration) {
		c.Bulk = nil
	}
	return c
}

// unsupported refuses a sequence that needs what the backend lacks; nil: it lacks nothing.
func (r *replica) unsupported(msg *messages.SubmitSequence) *messages.Refused {
	kind, can := backendOf(r.Spec)
	var lacks backend.Capability
	switch {
	case len(msg.GetOutput()) > 0 && !can.Has(backend.Resume) && !r.machine.Has(msg.GetRequestId()):
		lacks = backend.Resume
	case msg.GetSequence().GetAdapterSpec() != nil && !can.Has(backend.Adapters):
		lacks = backend.Adapters
	default:
		return nil
	}
	return &messages.Refused{Reason: messages.Reason_REASON_UNSUPPORTED,
		Detail: r.title() + ": " + backend.Missing(kind, lacks)}
}

// backendStatus returns the report of a backend.
func backendStatus(spec *messages.ReplicaSpec) *messages.Backend {
	kind, can := backendOf(spec)
	return &messages.Backend{Kind: string(kind), Capabilities: can.Names()}
}
