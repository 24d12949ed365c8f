package hostcache

import "cmp"

// reserve evicts what must go for an image, and takes its memory.
func (m *Machine) reserve(i *image, e event) {
	for _, victim := range m.candidates()[:m.roomFor(e.bytes)] {
		m.evict(victim, "room for "+e.key.Digest)
	}
	m.used += i.bytes
	m.use(i, e)
	m.emit(Reserve{i.key, i.bytes})
}

func (m *Machine) refuse(i *image, _ event) { m.emit(Refuse{i.key, i.bytes, m.Usage()}) }

// recover takes the memory of an image that is there.
func (m *Machine) recover(i *image, e event) {
	m.used += i.bytes
	m.use(i, e)
}

// use notes the use of an image.
func (m *Machine) use(i *image, e event) {
	m.uses++
	i.last = m.uses
	i.pinned = i.pinned || e.pinned
}

// named returns the key of an image with the given content.
func (i *image) named(digest string) Key { return Key{Digest: digest, Layout: i.key.Layout} }

// filled names an image by its content.
func (m *Machine) filled(i *image, e event) {
	m.use(i, e)
	if as := i.named(e.digest); as != i.key {
		m.emit(Rename{i.key, as})
		delete(m.images, i.key)
		i.key = as
	}
}

func (m *Machine) open(i *image, e event) {
	i.readers[e.reader] = true
	m.use(i, e)
}

func (m *Machine) close(i *image, e event) { delete(i.readers, e.reader) }

func (m *Machine) pin(i *image, e event) { i.pinned = e.pinned }

func (m *Machine) revoke(i *image, e event) { i.fault = e.why }

// free returns the memory of an image.
func (m *Machine) free(i *image, e event) {
	m.used -= i.bytes
	m.emit(Free{i.key, cmp.Or(i.fault, e.why)})
}

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }
