//go:build linux

package driver

import "unsafe"

// maxArgs is the maximum number of arguments of a command; cuLaunchKernel has eleven.
const maxArgs = 12

// command is a call of a function that takes integers and addresses and returns a CUresult.
// cross_amd64.s depends on its layout.
type command struct {
	fn   uintptr
	args [maxArgs]uintptr
}

// list is a sequence of commands that cross into the library together. They run in order until one
// fails. cross_amd64.s depends on its layout.
type list struct {
	commands *command
	n        int
	done     int // number of successful commands
	result   int // result of the failed one, or 0
}

// cross runs commands in one crossing into the library. It returns the number of successful
// commands and the result of the next one.
//
// Addresses among the arguments are plain numbers to the Go runtime: the caller must keep their
// memory alive.
func cross(commands []command) (done, result int) {
	l := &list{commands: unsafe.SliceData(commands), n: len(commands)}
	l.run()
	return l.done, l.result
}

// out returns memory for the library to write to. It is on the heap, because the library gets its
// address as a number and stacks move.
//
//go:noinline
func out[T any]() *T { return new(T) }

func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }
