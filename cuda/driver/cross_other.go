//go:build linux && !amd64

package driver

import (
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// run crosses once per command, on one thread.
func (l *list) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, c := range unsafe.Slice(l.commands, l.n) {
		result, _, _ := purego.SyscallN(c.fn, c.args[:]...)
		if l.result = int(int32(result)); l.result != 0 {
			return
		}
		l.done++
	}
}
