//go:build !linux

package host

func adviseHugePages([]byte) {}
