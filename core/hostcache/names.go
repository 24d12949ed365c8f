package hostcache

import (
	"cmp"
	"maps"
	"slices"
)

// Attach names an image that is there.
func (m *Machine) Attach(key Key, name Name) []Effect {
	return m.on(event{kind: evName, key: key, name: name})
}

// Forget removes a name. An image without names is freed, at once or when it is no longer used.
func (m *Machine) Forget(name Name, why string) []Effect {
	i := m.names[name]
	if i == nil {
		return []Effect{Ignored{Key{}, Absent, evForget, "unexpected"}}
	}
	return m.on(event{kind: evForget, key: i.key, name: name, why: why})
}

// Await counts a load that waits until an image is filled. Proceed follows once.
func (m *Machine) Await(key Key, waiter string) []Effect {
	return m.on(event{kind: evAwait, key: key, reader: waiter})
}

// Find returns the image that has a name. It reports false if there is none.
func (m *Machine) Find(name Name) (Key, bool) {
	if i := m.names[name]; i != nil {
		return i.key, true
	}
	return Key{}, false
}

// Compare orders names.
func (n Name) Compare(other Name) int {
	return cmp.Or(cmp.Compare(n.Model, other.Model), cmp.Compare(n.Adapter, other.Adapter),
		cmp.Compare(n.Layout, other.Layout))
}

func (m *Machine) namesOf(i *image) []Name {
	var all []Name
	for name, of := range m.names {
		if of == i {
			all = append(all, name)
		}
	}
	slices.SortFunc(all, Name.Compare)
	return all
}

func (m *Machine) attach(i *image, e event) {
	m.names[e.name] = i
	m.emit(Attach{i.key, e.name})
}

func (m *Machine) detach(_ *image, e event) { delete(m.names, e.name) }

// unnamed removes the last name of an image that something still uses.
func (m *Machine) unnamed(i *image, e event) {
	m.detach(i, e)
	m.revoke(i, e)
}

func (m *Machine) await(i *image, e event) { i.waiters = append(i.waiters, e.reader) }

// merge moves the names of an image to another one with the same content, and frees it.
func (m *Machine) merge(i *image, e event) {
	if twin := m.images[i.named(e.digest)]; twin.state != Revoked {
		for _, name := range m.namesOf(i) {
			m.attach(twin, event{name: name})
		}
	}
	m.free(i, e)
}

// leave lets the waiters of an image proceed that is no longer being filled, and removes the names of
// one that serves no new reader.
func (m *Machine) leave(i *image, from State) {
	if from == Filling && i.state != Filling {
		for _, waiter := range i.waiters {
			m.emit(Proceed{waiter})
		}
		i.waiters = nil
	}
	if i.state == Absent || i.state == Revoked {
		maps.DeleteFunc(m.names, func(_ Name, of *image) bool { return of == i })
	}
}
