//go:build linux

package driver

// runWideAddress is where runWide is, a function of C's convention that calls what a wide says: a command of one argument.
var runWideAddress uintptr
