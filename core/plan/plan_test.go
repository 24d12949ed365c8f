package plan

import (
	"strings"
	"testing"
)

func TestPlace(t *testing.T) {
	const gib = 1 << 30
	for name, tc := range map[string]struct {
		gpus []GPU
		want string
		why  string // part of it
	}{
		"most free memory":           {[]GPU{{Name: "a", Free: 2 * gib}, {Name: "b", Free: 3 * gib}}, "b", "b has 3 GiB free, of 2 of 2 with room"},
		"ties by name":               {[]GPU{{Name: "b", Free: 2 * gib}, {Name: "a", Free: 2 * gib}}, "a", ""},
		"away from its siblings":     {[]GPU{{Name: "a", Free: 3 * gib, Siblings: 1}, {Name: "b", Free: 2 * gib}}, "b", ""},
		"not where it is draining":   {[]GPU{{Name: "a", Free: 3 * gib, Draining: true}, {Name: "b", Free: 2 * gib}}, "b", ""},
		"nowhere, and why":           {[]GPU{{Name: "a", Free: gib / 2}, {Name: "b"}, {Name: "c", Draining: true}, {Name: "d", Avoid: true, Free: gib}}, "", "2 of 4 short of memory by 512 MiB or more; 1 draining; 1 refused it lately"},
		"nowhere, for want of a GPU": {nil, "", "no GPU"},
	} {
		got, why, ok := Place(gib, tc.gpus)
		if got.Name != tc.want || ok != (tc.want != "") || !strings.Contains(why, tc.why) {
			t.Errorf("%s: %v, %q, %v", name, got, why, ok)
		}
	}
}
