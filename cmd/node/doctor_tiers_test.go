package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckTiers: what the doctor says of the tiers that are asked for, and that it leaves nothing behind.
func TestCheckTiers(t *testing.T) {
	folder := t.TempDir()
	letter := writeFile(t, folder, "letter", "Dear Theophilus")
	for name, tc := range map[string]struct {
		args   []string
		check  string
		state  state
		remedy string
	}{
		"dram":             {[]string{"--kv-dram", "1MiB"}, "kv dram", stateOK, ""},
		"too much dram":    {[]string{"--kv-dram", "4000000GiB"}, "kv dram", stateFix, "less with --kv-dram"},
		"too much disk":    {[]string{"--kv-nvme", "4000000GiB", "--kv-nvme-path", filepath.Join(folder, "kv")}, "kv nvme", stateFix, "less with --kv-nvme"},
		"no folder":        {[]string{"--kv-nvme", "1MiB", "--kv-nvme-path", filepath.Join(folder, "none", "kv")}, "kv nvme", stateFix, "make that folder"},
		"a folder":         {[]string{"--kv-nvme", "1MiB", "--kv-nvme-path", folder}, "kv nvme", stateFix, "name another file"},
		"somebody's":       {[]string{"--kv-nvme", "1MiB", "--kv-nvme-path", letter}, "kv nvme", stateFix, "name another file"},
		"nothing is asked": {nil, "", "", ""},
	} {
		s := resolved(t, append(tc.args, "--data", folder)...)
		got := checkTiers(t.Context(), s)
		switch {
		case tc.check == "":
			if len(got) != 0 {
				t.Errorf("%s: %+v", name, got)
			}
		case len(got) != 1 || got[0].Check != tc.check || got[0].State != tc.state || !strings.Contains(got[0].Remedy, tc.remedy) || (got[0].Remedy == "") != (tc.remedy == ""):
			t.Errorf("%s: %+v", name, got)
		}
	}
	disk := checkTiers(t.Context(), resolved(t, "--kv-nvme", "1MiB", "--kv-nvme-path", filepath.Join(folder, "kv")))
	if len(disk) != 1 || disk[0].State == stateFix { // a file system without O_DIRECT is odd
		t.Errorf("%+v", disk)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}
