//go:build linux

package driver

import "unsafe"

// maxArgs is how many arguments a command can have: cuLaunchKernel has eleven.
const maxArgs = 12

// command is a call of a function that takes integers and addresses and returns a CUresult. cross_amd64.s knows its layout.
type command struct {
	fn   uintptr
	args [maxArgs]uintptr
}

// list is commands that cross into the library together. They run in order until one fails. cross_amd64.s knows its layout.
type list struct {
	commands *command
	n        int
	done     int // how many have succeeded
	result   int // of the one that has not, or 0
}

// cross runs commands in one crossing, and returns how many of them succeeded and what the next one returned.
//
// Addresses among the arguments are numbers to the runtime: whoever made them keeps what they point to.
func cross(commands []command) (done, result int) {
	l := &list{commands: unsafe.SliceData(commands), n: len(commands)}
	l.run()
	return l.done, l.result
}

// out returns memory for the library to write to. It is on the heap, because the library gets its address as a number, and
// stacks move.
//
//go:noinline
func out[T any]() *T { return new(T) }

func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }
