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

// TestClassAsPriorityIsNamed checks that a node says what the class of requests means as a priority.
func TestClassAsPriorityIsNamed(t *testing.T) {
	folder := t.TempDir()
	writeFile(t, folder, "config.json", "{}")
	for priority, named := range map[string]bool{"interactive": true, "high": false, "batch": false} {
		path := writeFile(t, folder, "node.yaml", "deployments:\n  - {name: m, path: ., priority: "+priority+"}\n")
		var out bytes.Buffer
		resolved(t, "--config", path).logUnused(zerolog.New(&out))
		if got := strings.Contains(out.String(), "using priority high"); got != named {
			t.Errorf("%s: %q", priority, out.String())
		}
	}
}
