package residency

import (
	"time"

	"troupe/core/hbm"
)

// evictionOrder puts copies that no deployment wants first. Of these and of the others, it puts those that
// are not read first, then those unused for longest.
func evictionOrder(a, b Copy) int {
	if a.Spare != b.Spare {
		if a.Spare {
			return -1
		}
		return 1
	}
	if aRead, bRead := len(a.Readers) > 0, len(b.Readers) > 0; aRead != bRead {
		if bRead {
			return -1
		}
		return 1
	}
	return a.Used.Compare(b.Used)
}

func pageBytes(c *copied) int64 { return int64(hbm.PagesOf(c.source.Bytes)) * hbm.PageBytes }

// MakeRoom evicts unused copies until the given number of pages is free or being freed, as far as
// there are unused copies.
func (m *Machine) MakeRoom(need, free int, spareOnly bool, why string, now time.Time) (effects []Effect) {
	free += int(m.Releasing() / hbm.PageBytes)
	for _, c := range m.Evictable() {
		if free >= need || spareOnly && !c.Spare {
			break
		}
		free += c.Pages()
		effects = append(effects, m.Evict(c.Number, why, now)...)
	}
	return effects
}

// Reclaimable returns the bytes that are being freed and those of unused copies, in whole pages.
func (m *Machine) Reclaimable() (bytes int64) {
	for _, c := range m.copies {
		if c.state >= Leaving || c.state == Resident && len(c.users) == 0 {
			bytes += pageBytes(c)
		}
	}
	return bytes
}
