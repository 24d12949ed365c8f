package control

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	core "troupe/core/backend"
	"troupe/messages"
)

// immutable are the deployment fields that a change cannot set: name selects the deployment, and
// the nodes and commands set others.
var immutable = map[protoreflect.Name]bool{
	"name": true, "applied": true,
	"weights_digest": true, "revision_digest": true, "deploy": true, "asked_revision": true,
	"drop_weights": true, "level": true, "replica_levels": true, "preemptions": true,
	"held_by": true, "assignments": true,
}

// Merge applies a change to a stored deployment, which is nil for a new one. A field that is set in
// the change replaces the stored value, a field in reset gets its default, and all others keep
// their values. A change that sets replicas ends the preemptions, and brings back replicas that were parked
// one by one. A change of replicas or its bounds ends a hold. If the stored min_replicas and max_replicas
// are equal, a new nonzero value of replicas also replaces both. A reset of a field that a change cannot
// set has no effect if it is not set. The caller normalizes the result.
func Merge(stored, change *messages.DeploymentSpec, reset []string) (*messages.DeploymentSpec, error) {
	merged := &messages.DeploymentSpec{Name: change.GetName()}
	if stored != nil {
		merged = proto.CloneOf(stored)
		merged.DropWeights = false // it was of the change before
	}
	from, to := change.ProtoReflect(), merged.ProtoReflect()
	fields := to.Descriptor().Fields()
	for _, name := range reset {
		f := fields.ByName(protoreflect.Name(name))
		switch {
		case f != nil && immutable[f.Name()] && !to.Has(f): // as in a spec of models.get that is sent back
		case f == nil || immutable[f.Name()]:
			return nil, fmt.Errorf(
				"deployment.%s cannot be reset; these can: %s",
				name,
				strings.Join(resettable(fields), ", "),
			)
		case from.Has(f):
			return nil, fmt.Errorf("deployment.%s has a value and is to be reset; send only one of the two", name)
		}
	}
	if change.Replicas != nil || slices.Contains(reset, "replicas") {
		merged.Preemptions = nil // a hand takes back what it took away
		for _, replica := range merged.ParkedReplicas() {
			delete(merged.ReplicaLevels, replica)
		}
	}
	if change.Replicas != nil || change.MinReplicas != nil || change.MaxReplicas != nil ||
		slices.ContainsFunc(reset, func(name string) bool { return strings.HasSuffix(name, "replicas") }) {
		merged.EndHold()
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

// hidden are the fields that Changes leaves out: the name, and fields that nodes maintain. A change
// of files shows as revision_digest, which is empty until the first replica has read the new files.
var hidden = map[protoreflect.Name]bool{
	"name": true, "applied": true, "weights_digest": true, "deploy": true, "asked_revision": true,
	"assignments": true,
}

// Changes lists the fields in which two normalized deployments differ. For a new deployment before
// is nil; Changes then lists the fields that differ from their defaults.
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

// fieldText returns a field's value as text, or "" if the field is not set.
func fieldText(f protoreflect.FieldDescriptor, m protoreflect.Message) string {
	if !m.Has(f) {
		return ""
	}
	if f.Kind() == protoreflect.EnumKind && !f.IsList() {
		if value := f.Enum().Values().ByNumber(m.Get(f).Enum()); value != nil {
			return string(value.Name())
		}
	}
	if d, ok := m.Interface().(*messages.DeploymentSpec); ok && f.IsMap() {
		return levelsText(d.GetReplicaLevels())
	}
	if f.IsList() {
		return preemptedReplicas(m.Interface().(*messages.DeploymentSpec))
	}
	if e, ok := m.Get(f).Interface().(protoreflect.Message); ok {
		switch e := e.Interface().(type) {
		case *messages.EngineSpec:
			return core.SpecOf(e.GetKind(), e.GetWithout()).String()
		case *messages.Slo:
			return sloText(e)
		case *messages.Hold:
			return e.Text()
		}
	}
	return m.Get(f).String()
}

// preemptedReplicas returns the names of the preempted replicas, the only list in a deployment.
func preemptedReplicas(s *messages.DeploymentSpec) string {
	names := make([]string, len(s.GetPreemptions()))
	for i, p := range s.GetPreemptions() {
		names[i] = p.GetReplica()
	}
	return strings.Join(names, ", ")
}

// ChangesText formats changes as "replicas from 2 to 3, max_waiting from 1024 to 9".
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
