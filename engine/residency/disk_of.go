package residency

import (
	"fmt"
	"os"
	"syscall"
)

// DiskOf returns the number of the disk that has a file; empty if there is no such file.
func DiskOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(sys.Dev)
	}
	return ""
}
