//go:build linux

package driver

import "unsafe"

// run crosses once for all commands, by a loop in assembly that the runtime calls as it calls C. Package purego brings the
// runtime's part of that.
func (l *list) run() { cgocall(runListAddress, unsafe.Pointer(l)) }

// runListAddress is where runList is, which has the calling convention of C.
var runListAddress uintptr

//go:linkname cgocall runtime.cgocall
func cgocall(fn uintptr, arg unsafe.Pointer) int32
