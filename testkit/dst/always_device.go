package dst

import "troupe/cuda"

// The memory of a device belongs to one owner: a page of physical memory is mapped at one address
// at most, an address has one page at most, and nothing is freed that is in use or already free.

// checkMap checks a mapping. The caller must hold d.mu.
func (d *Device) checkMap(at cuda.Ptr, p *physical) {
	switch {
	case p.memory == nil:
		d.violate("released memory is mapped at %#x", at)
	case p.mapped > 0:
		d.violate("memory is mapped twice, again at %#x", at)
	}
	for i := range p.bytes / pageBytes {
		if page := at + cuda.Ptr(i*pageBytes); d.mapped[page] != nil {
			d.violate("%#x is already mapped", page)
		}
	}
}

// checkRelease checks the release of physical memory. The caller must hold the device's mu.
func (p *physical) checkRelease() {
	switch {
	case p.memory == nil:
		p.device.violate("memory is released twice")
	case p.mapped > 0:
		p.device.violate("memory is released while it is mapped")
	}
}

// checkUnreserve checks that no page of a range is still mapped. The caller must hold d.mu.
func (d *Device) checkUnreserve(at cuda.Ptr, bytes int64) {
	if bytes == 0 {
		d.violate("addresses at %#x are unreserved, but were not reserved", at)
	}
	for i := range bytes / pageBytes {
		if d.mapped[at+cuda.Ptr(i*pageBytes)] != nil {
			d.violate("addresses at %#x are unreserved while memory is mapped there", at)
			return
		}
	}
}

func (d *Device) violate(format string, args ...any) {
	if d.checks != nil {
		d.checks.fail(d.info.UUID+": "+format, args...)
	}
}
