//go:build !linux

package host

import "troupe/cuda"

// virtual is not implemented on this system: it needs anonymous files and mappings at fixed
// addresses.
type virtual struct{ ranges map[cuda.Ptr]int64 }

type physical struct{}

func (*virtual) close() error { return nil }
