package host

import (
	"errors"
	"fmt"

	"troupe/cuda"
)

// ShareHost implements cuda.HostSharer: software devices of one process share host memory.
func (d *device) ShareHost(memory cuda.HostMemory) (release func(), err error) {
	theirs, ok := memory.(*hostMemory)
	switch {
	case !ok:
		return nil, fmt.Errorf("cuda: %s cannot use host memory of a %T: %w", d.Name, memory, errors.ErrUnsupported)
	case theirs.dev == d:
		return func() {}, nil
	}
	d.hostMem.insert(allocation{start: theirs.at, bytes: theirs.bytes, shared: true})
	return func() {
		d.busy.Lock()
		defer d.busy.Unlock()
		d.hostMem.remove(theirs.at, func(a allocation) bool { return a.shared })
	}, nil
}
