package control

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"troupe/messages"
)

// kept are the fields of a deployment that a change of it does not touch: the name says which one it is, and nodes set
// the others.
var immutable = map[protoreflect.Name]bool{
	"name": true, "applied": true,
	"weights_digest": true, "revision_digest": true, "deploy": true, "asked_revision": true,
}

// Merge returns what a change makes of a stored deployment. A field that the change has replaces the stored one, a
// field named in reset gets its default, and all others keep their values. Where min_replicas and max_replicas leave no
// choice, they follow replicas. Stored is nil for a new deployment. The result is to be normalized.
func Merge(stored, change *messages.DeploymentSpec, reset []string) (*messages.DeploymentSpec, error) {
	merged := &messages.DeploymentSpec{Name: change.GetName()}
	if stored != nil {
		merged = proto.CloneOf(stored)
	}
	from, to := change.ProtoReflect(), merged.ProtoReflect()
	fields := to.Descriptor().Fields()
	for _, name := range reset {
		f := fields.ByName(protoreflect.Name(name))
		switch {
		case f == nil || immutable[f.Name()]:
			return nil, fmt.Errorf("deployment.%s cannot be reset; these can: %s", name, strings.Join(resettable(fields), ", "))
		case from.Has(f):
			return nil, fmt.Errorf("deployment.%s has a value and is to be reset; send one of them", name)
		}
	}
	starts := change.GetReplicas() > 0 || slices.Contains(reset, "replicas")
	if stored != nil && starts && stored.GetMinReplicas() == stored.GetMaxReplicas() {
		merged.MinReplicas, merged.MaxReplicas = nil, nil
	}
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case immutable[f.Name()]:
		case slices.Contains(reset, string(f.Name())):
			to.Clear(f)
		case from.Has(f):
			to.Set(f, from.Get(f))
		}
	}
	return merged, nil
}

func resettable(fields protoreflect.FieldDescriptors) (names []string) {
	for i := range fields.Len() {
		if name := fields.Get(i).Name(); !immutable[name] {
			names = append(names, string(name))
		}
	}
	return names
}

// hidden are the fields that Changes leaves out: nodes count with them. A change of files shows as revision_digest, which
// is empty until the first replica has read the new ones.
var hidden = map[protoreflect.Name]bool{
	"name": true, "applied": true, "weights_digest": true, "deploy": true, "asked_revision": true,
}

// Changes lists the fields in which two normalized deployments differ. Before is nil for a new one; then these are the
// fields that do not have their default.
func Changes(before, after *messages.DeploymentSpec) (all []*messages.FieldChange) {
	created := before == nil
	if created {
		before = (&messages.DeploymentSpec{}).Complete()
	}
	from, to := before.ProtoReflect(), after.ProtoReflect()
	fields := to.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if hidden[f.Name()] || from.Has(f) == to.Has(f) && from.Get(f).Equal(to.Get(f)) {
			continue
		}
		change := &messages.FieldChange{Field: string(f.Name()), From: fieldText(f, from), To: fieldText(f, to)}
		if created {
			change.From = ""
		}
		all = append(all, change)
	}
	return all
}

// fieldText is a field's value in words; empty: it has none.
func fieldText(f protoreflect.FieldDescriptor, m protoreflect.Message) string {
	if !m.Has(f) {
		return ""
	}
	if f.Kind() == protoreflect.EnumKind && !f.IsList() {
		if value := f.Enum().Values().ByNumber(m.Get(f).Enum()); value != nil {
			return string(value.Name())
		}
	}
	return m.Get(f).String()
}

// ChangesText puts changes into words: "replicas from 2 to 3, max_waiting from 1024 to 9".
func ChangesText(all []*messages.FieldChange) string {
	var parts []string
	for _, c := range all {
		switch {
		case c.GetFrom() == "":
			parts = append(parts, c.GetField()+" "+c.GetTo())
		case c.GetTo() == "":
			parts = append(parts, fmt.Sprintf("%s from %s to none", c.GetField(), c.GetFrom()))
		default:
			parts = append(parts, fmt.Sprintf("%s from %s to %s", c.GetField(), c.GetFrom(), c.GetTo()))
		}
	}
	if parts == nil {
		return "nothing changed"
	}
	return strings.Join(parts, ", ")
}
