package residency

import (
	"slices"
	"time"
)

// readGrace is how long the readers of a copy may go on when its memory is needed.
const readGrace = 2 * time.Second

// Read counts a reader, which copies the weights to another device or node, unless the copy is about to
// leave.
func (m *Machine) Read(reader string, number uint64, now time.Time) []Effect {
	return m.handle(number, event{kind: evRead, reader: reader, now: now})
}

// ReadEnded reports that a reader has ended.
func (m *Machine) ReadEnded(reader string, number uint64, now time.Time) []Effect {
	return m.handle(number, event{kind: evReadEnded, reader: reader, now: now})
}

// Tick revokes readers that have had their time to end.
func (m *Machine) Tick(now time.Time) (all []Effect) {
	for _, c := range m.sorted() {
		if c.state == Leaving && !c.revoked && !now.Before(c.until) {
			all = append(all, m.handle(c.number, event{kind: evOverdue, why: "its memory is needed", now: now})...)
		}
	}
	return all
}

// Readable returns the number of the copy of a revision that can be read; 0 if there is none.
func (m *Machine) Readable(revision, layout string) uint64 {
	for _, c := range m.sorted() {
		if c.state == Resident && !c.spoiled && c.content.Revision == revision && c.source.Layout == layout {
			return c.number
		}
	}
	return 0
}

func (c *copied) isRead(reader string) bool { return slices.Contains(c.readers, reader) }

// read counts a reader. If the earlier readers of the copy were revoked and have not ended, the new one is not
// revoked, so not all of them are.
func (m *Machine) read(c *copied, e event) {
	c.used = e.now
	if !c.isRead(e.reader) {
		c.readers, c.revoked = append(c.readers, e.reader), false
	}
}

func (m *Machine) readEnded(c *copied, e event) {
	c.used = e.now
	c.readers = slices.DeleteFunc(c.readers, func(r string) bool { return r == e.reader })
	c.revoked = c.revoked && len(c.readers) > 0
}

// leave lets the readers of a copy end before it is released. No new ones begin.
func (m *Machine) leave(c *copied, e event) {
	if e.why != "" {
		m.emit(Evicted{c.number, e.why})
	}
	c.pending, c.until = c.releaseBy(e.fate), e.now.Add(readGrace)
}

func (m *Machine) goneLeave(c *copied, e event) {
	m.gone(c, e)
	m.leave(c, e)
}

func (m *Machine) leaveNow(c *copied, e event) {
	m.leave(c, e)
	m.revoke(c, e)
}

// dropLeaving revokes the readers of a copy whose content is lost, which is not parked then.
func (m *Machine) dropLeaving(c *copied, e event) {
	c.pending = Release{Copy: c.number}
	m.revoke(c, e)
}

func (m *Machine) lastReadEnded(c *copied, e event) {
	m.readEnded(c, e)
	m.emit(c.pending)
}

func (m *Machine) revoke(c *copied, e event) {
	if len(c.readers) > 0 && !c.revoked {
		c.revoked = true
		m.emit(Revoke{c.number, e.why})
	}
}
