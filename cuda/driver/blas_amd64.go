//go:build linux

package driver

// runWideAddress is the address of runWide, a function with C's calling convention that makes the
// call described by a wide. It is called as a command with one argument.
var runWideAddress uintptr
