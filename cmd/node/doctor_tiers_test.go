package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckTiers checks the findings about the space for tiers, and that the checks leave no files.
func TestCheckTiers(t *testing.T) {
	folder := t.TempDir()
	other := writeFile(t, folder, "other", "not a tier's file")
	disk := func(size, path string) []string { return []string{"--kv-nvme", size, "--kv-nvme-path", path} }
	for name, tc := range map[string]struct {
		args   []string
		check  string
		state  state
		remedy string
	}{
		"dram":           {[]string{"--kv-dram", "1MiB"}, "kv dram", stateOK, ""},
		"too much dram":  {[]string{"--kv-dram", "4000000GiB"}, "kv dram", stateFix, "reduce --kv-dram"},
		"too much disk":  {disk("4000000GiB", filepath.Join(folder, "kv")), "kv nvme", stateFix, "reduce --kv-nvme"},
		"no folder":      {disk("1MiB", folder+"/none/kv"), "kv nvme", stateFix, "create that folder"},
		"a folder":       {disk("1MiB", folder), "kv nvme", stateFix, "set another file"},
		"unrelated file": {disk("1MiB", other), "kv nvme", stateFix, "set another file"},
		"no tiers":       {nil, "", "", ""},
	} {
		s := resolved(t, append(tc.args, "--data", folder)...)
		got := checkTiers(t.Context(), s)
		switch {
		case tc.check == "":
			if len(got) != 0 {
				t.Errorf("%s: %+v", name, got)
			}
		case len(got) != 1 || got[0].Check != tc.check || got[0].State != tc.state,
			!strings.Contains(got[0].Remedy, tc.remedy), (got[0].Remedy == "") != (tc.remedy == ""):
			t.Errorf("%s: %+v", name, got)
		}
	}
	got := checkTiers(t.Context(), resolved(t, disk("1MiB", filepath.Join(folder, "kv"))...))
	if len(got) != 1 || got[0].State == stateFix { // a warning without O_DIRECT
		t.Errorf("%+v", got)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("files left: %v, %v", left, err)
	}
}
