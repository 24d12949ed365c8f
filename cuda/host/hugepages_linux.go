package host

import "golang.org/x/sys/unix"

// adviseHugePages requests huge pages, as page-locked memory has: checksums and disks access them
// faster. Without huge pages it is slower.
func adviseHugePages(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
