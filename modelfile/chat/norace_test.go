//go:build !race

package chat_test

import "strconv"

// addressSpace returns a limit for ulimit -v.
func addressSpace(bytes int) string { return strconv.Itoa(bytes >> 10) }
