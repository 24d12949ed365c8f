//go:build linux

package driver

import "unsafe"

// run crosses once for all commands. The loop is in assembly and called through the runtime like C
// code; package purego provides the runtime's part.
func (l *list) run() { cgocall(runListAddress, unsafe.Pointer(l)) }

// runListAddress is the address of runList, which has C's calling convention.
var runListAddress uintptr

//go:linkname cgocall runtime.cgocall
func cgocall(fn uintptr, arg unsafe.Pointer) int32
