package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// TestUnusedOptionIsNamed checks that a node says so if an option has no effect any longer, and only then.
func TestUnusedOptionIsNamed(t *testing.T) {
	for _, args := range [][]string{{"--name", "n"}, {"--name", "n", "--adapter-dram", "1GiB"}} {
		var out bytes.Buffer
		resolved(t, args...).logUnused(zerolog.New(&out))
		if named := strings.Contains(out.String(), `"option":"adapter_dram"`); named != (len(args) > 2) ||
			named && !strings.Contains(out.String(), "--weights-dram") {
			t.Errorf("%v: %q", args, out.String())
		}
	}
}
