//go:build linux

package driver

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/ebitengine/purego"

	"troupe/cuda"
)

// lazyPeer allows a device to open memory of another device: CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS,
// the only flag.
const lazyPeer = 1

// Share implements cuda.Sharer.
func (d *device) Share(p cuda.Ptr) (cuda.SharedHandle, error) {
	h := out[cuda.SharedHandle]()
	err := d.call(fmt.Sprintf("share memory at %#x", uint64(p)), d.lib.ShareGet, address(h), uintptr(p))
	return *h, err
}

// OpenShared implements cuda.Sharer. The handle is passed by value, which a command cannot do on
// every processor.
func (d *device) OpenShared(h cuda.SharedHandle, bytes int64) (cuda.Ptr, error) {
	if err := d.usable(); err != nil {
		return 0, err
	}
	if d.lib.ShareOpen.at == 0 {
		return 0, unsupported(d.lib.ShareOpen)
	}
	type handle struct{ Bytes [64]byte }
	var openHandle func(at *cuda.Ptr, h handle, flags uint32) int32
	purego.RegisterFunc(&openHandle, d.lib.ShareOpen.at)
	runtime.LockOSThread() // the context belongs to the thread
	defer runtime.UnlockOSThread()
	if _, result := cross([]command{{fn: d.lib.SetContext.at, args: [maxArgs]uintptr{d.context}}}); result != success {
		return 0, d.failed("open shared memory", result)
	}
	p := out[cuda.Ptr]()
	if result := openHandle(p, handle{h}, lazyPeer); result != success {
		return 0, d.failed("open shared memory", int(result))
	}
	at := *p
	closing := func() error { return d.giveBack("close shared memory", d.lib.ShareClose, uintptr(at)) }
	d.memory.add(span{start: at, end: at.Offset(bytes), free: closing, kind: opened})
	return at, nil
}

// CloseShared implements cuda.Sharer.
func (d *device) CloseShared(p cuda.Ptr) error {
	s, ok := d.memory.take(p, opened)
	if !ok {
		return errors.New("cuda: no shared memory at this address")
	}
	return s.free()
}
