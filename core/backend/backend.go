package backend

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is a kind of backend.
type Kind string

// The kinds. The zero Kind is Native.
const (
	Native    Kind = "native"
	Simulated Kind = "simulated"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Native, Simulated} }

// OrNative returns k, or Native for the zero Kind.
func (k Kind) OrNative() Kind {
	if k == "" {
		return Native
	}
	return k
}

// Capabilities returns what backends of the kind can do.
func (k Kind) Capabilities() Set {
	if k == Simulated {
		return All.Without(Logprobs, Adapters, KVMigration, KVTiers)
	}
	return All
}

// MaxDevices returns the largest number of devices among which backends of the kind divide a replica.
func (k Kind) MaxDevices() int { return 1 }

// Spec is what a deployment says about the backends of its replicas.
type Spec struct {
	Kind    Kind
	Without Set // capabilities that its replicas do not use, although their kind has them
}

// ParseSpec checks a kind and the names of the capabilities to leave out.
func ParseSpec(kind string, without []string) (Spec, error) {
	s := Spec{Kind: Kind(kind).OrNative()}
	if !slices.Contains(Kinds(), s.Kind) {
		return s, fmt.Errorf("engine.kind is %q; use %s or %s", kind, Native, Simulated)
	}
	for _, name := range without {
		c, ok := ParseCapability(name)
		if !ok {
			return s, fmt.Errorf("engine.without has %q; the capabilities are %s", name,
				strings.Join(All.Names(), ", "))
		}
		s.Without = s.Without.With(c)
	}
	if s.Kind == Native && s.Without != 0 {
		return s, fmt.Errorf("engine.without is %s, but the %s engine has all capabilities; leave it out, or use the "+
			"kind %s", strings.Join(s.Without.Names(), ", "), Native, Simulated)
	}
	return s, nil
}

// SpecOf is ParseSpec for a spec that was checked before. It ignores what a later version knows.
func SpecOf(kind string, without []string) Spec {
	s := Spec{Kind: Kind(kind).OrNative()}
	for _, name := range without {
		if c, ok := ParseCapability(name); ok {
			s.Without = s.Without.With(c)
		}
	}
	return s
}

// String returns the spec as text: "simulated without kv_events, standby".
func (s Spec) String() string {
	if s.Without == 0 {
		return string(s.Kind.OrNative())
	}
	return string(s.Kind) + " without " + strings.Join(s.Without.Names(), ", ")
}

// Capabilities returns what a backend of the spec can do.
func (s Spec) Capabilities() Set { return s.Kind.Capabilities() &^ s.Without }

// Capability is something that a backend can do, or not.
type Capability uint8

// The capabilities; see the package comment.
const (
	TokenIDs    Capability = iota // prompts and answers as token IDs
	Resume                        // continuing a sequence in the middle
	Seeds                         // the same tokens for the same seed
	Logprobs                      // log-probabilities of tokens
	Adapters                      // LoRA adapters
	Standby                       // giving back KV memory, with the weights kept
	KVEvents                      // reporting which KV blocks it has
	KVMigration                   // moving the KV blocks of a running sequence to another replica
	KVTiers                       // copying KV blocks to tiers below HBM and to other nodes
	capabilities
)

var names = [capabilities]string{
	"token_ids", "resume", "seeds", "logprobs", "adapters", "standby", "kv_events", "kv_migration", "kv_tiers",
}

var words = [capabilities]string{
	"prompts and answers as token IDs", "continuing a sequence that has output", "seeds", "log-probabilities",
	"LoRA adapters", "standby", "reports of its KV blocks", "migration of KV blocks", "KV tiers",
}

// String returns the name of the capability, as in engine.without.
func (c Capability) String() string { return names[c] }

// ParseCapability returns the capability with a name.
func ParseCapability(name string) (Capability, bool) {
	i := slices.Index(names[:], name)
	return Capability(max(0, i)), i >= 0
}

// Missing says that a backend of a kind lacks a capability.
func Missing(k Kind, c Capability) string {
	return fmt.Sprintf("the %s backend does not support %s (%s)", k.OrNative(), words[c], c)
}

// Set is a set of capabilities.
type Set uint16

// All has all capabilities.
const All Set = 1<<capabilities - 1

// Has reports whether the set has a capability.
func (s Set) Has(c Capability) bool { return s&(1<<c) != 0 }

// With returns the set with capabilities added.
func (s Set) With(all ...Capability) Set {
	for _, c := range all {
		s |= 1 << c
	}
	return s
}

// Without returns the set without capabilities.
func (s Set) Without(all ...Capability) Set { return s &^ Set(0).With(all...) }

// Names returns the names of the capabilities in the set.
func (s Set) Names() (all []string) {
	for c := range capabilities {
		if s.Has(c) {
			all = append(all, c.String())
		}
	}
	return all
}

// SetOf returns the set of capabilities with the names. It ignores names of later versions.
func SetOf(all []string) (s Set) {
	for _, name := range all {
		if c, ok := ParseCapability(name); ok {
			s = s.With(c)
		}
	}
	return s
}
