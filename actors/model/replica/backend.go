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

// backendStatus returns the report of a backend.
func backendStatus(spec *messages.ReplicaSpec) *messages.Backend {
	kind, can := backendOf(spec)
	return &messages.Backend{Kind: string(kind), Capabilities: can.Names()}
}
