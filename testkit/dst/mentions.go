package dst

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
)

// mentions finds the requests, of clients or of actors, and the copies of blocks that an actor still
// knows. At rest there are none: what an actor keeps for them would otherwise grow with their number.
type mentions struct {
	requests map[string]bool
	seen     map[uintptr]bool
	copies   map[uint64]bool
	exists   func(address, id string) bool // reports whether there is an actor
	gone     map[string]string             // actor that has ended by the field that has it
	found    map[string]string             // request by the field that has it
}

// bounded are the fields that keep the last requests, at most a fixed number: the explanations of a
// router, the answers to commands of migration, and the last step.
var bounded = []string{".machine.log", ".migrations.source.commands", ".machine.current.entries"}

// mentioned returns the requests that actors of a node know, with where they know them.
func (c *cluster) mentioned(n *Node) (all []string) {
	m := &mentions{requests: make(map[string]bool), copies: c.checks.messages.copies,
		exists: c.exists}
	for _, call := range c.calls {
		m.requests[call.ID] = true
	}
	for id := range c.checks.messages.ids {
		m.requests[id] = !lasts(id)
	}
	for _, id := range slices.Sorted(maps.Keys(n.actors)) {
		if _, runs := n.system.ProcessRegistry.GetLocal(id); !runs {
			continue
		}
		m.seen, m.found, m.gone = make(map[uintptr]bool), make(map[string]string), make(map[string]string)
		m.visit(reflect.ValueOf(n.actors[id]), "")
		for _, field := range slices.Sorted(maps.Keys(m.found)) {
			kind, request := c.checks.messages.ids[m.found[field]], m.found[field]
			all = append(all, fmt.Sprintf("%s on %s still knows %s %s in %s", id, n.cfg.Name, kind, request, field))
		}
		for _, field := range slices.Sorted(maps.Keys(m.gone)) {
			all = append(all, fmt.Sprintf("%s on %s still knows the ended actor %s in %s", id, n.cfg.Name,
				m.gone[field], field))
		}
	}
	return all
}

// pidIn returns the address and id of an actor, if v is such a reference.
func pidIn(v reflect.Value) (address, id string, ok bool) {
	if v.Kind() == reflect.Pointer && !v.IsNil() && v.Type() == reflect.TypeFor[*actor.PID]() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return "", "", false
	}
	at, name := v.FieldByName("Address"), v.FieldByName("ID")
	if !name.IsValid() {
		name = v.FieldByName("Id")
	}
	if !at.IsValid() || !name.IsValid() || at.Kind() != reflect.String || name.Kind() != reflect.String {
		return "", "", false
	}
	return at.String(), name.String(), at.String() != "" && name.String() != ""
}

// exists reports whether there is an actor.
func (c *cluster) exists(address, id string) bool {
	for _, n := range c.alive() {
		if n.address == address {
			_, runs := n.system.ProcessRegistry.GetLocal(id)
			return runs
		}
	}
	return false
}

// lasts reports whether a request id is the name of something that lasts: requests that concern a model
// or a replica may have its name as their id.
func lasts(id string) bool {
	name, _, _ := strings.Cut(id, "-")
	return id == "" || len(id) <= maxName &&
		slices.ContainsFunc(modelsOf(maxCrowd), func(m model) bool { return m.name == name })
}

// maxName is the maximum length of the name of a replica.
const maxName = 4

// visit visits the state of an actor and of its machine.
func (m *mentions) visit(v reflect.Value, at string) {
	if address, id, ok := pidIn(v); ok && !m.exists(address, id) {
		m.gone[at] = id + " of " + address
	}
	switch v.Kind() {
	case reflect.String:
		if m.requests[v.String()] {
			m.found[at] = v.String()
		}
	case reflect.Pointer:
		if slices.Contains(bounded, at) {
			return
		}
		if v.IsNil() || m.seen[v.Pointer()] || !ours(v.Type().Elem()) {
			return
		}
		m.seen[v.Pointer()] = true
		m.visit(v.Elem(), at)
	case reflect.Interface:
		m.visit(v.Elem(), at)
	case reflect.Struct:
		if !ours(v.Type()) || slices.Contains(bounded, at) {
			return
		}
		for i := range v.NumField() {
			m.visit(v.Field(i), at+"."+v.Type().Field(i).Name)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if k := it.Key(); k.Kind() == reflect.Uint64 && m.copies[k.Uint()] {
				m.found[at] = fmt.Sprint("copy ", k.Uint())
			}
			m.visit(it.Key(), at+" key")
			m.visit(it.Value(), at)
		}
	case reflect.Slice, reflect.Array:
		if slices.Contains(bounded, at) {
			return
		}
		if k := v.Type().Elem().Kind(); k >= reflect.Bool && k <= reflect.Complex128 {
			return
		}
		for i := range v.Len() {
			m.visit(v.Index(i), at)
		}
	}
}

// ours reports whether a type is one of core or of the actors, or has no package.
func ours(t reflect.Type) bool {
	p := t.PkgPath()
	return p == "" || strings.HasPrefix(p, "troupe/core/") || strings.HasPrefix(p, "troupe/actors/")
}

// remember keeps an actor for mentioned.
func (n *Node) remember(ctx actor.ReceiverContext) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.actors[ctx.Self().GetId()] = ctx.Actor()
}
