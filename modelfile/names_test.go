package modelfile_test

import (
	"strings"
	"testing"

	"troupe/modelfile"
)

// TestNamed checks that an error shows the first plain name, and nothing of other names.
func TestNamed(t *testing.T) {
	long := strings.Repeat("x", 121)
	for want, names := range map[string][]string{
		"tensor model.layers.0.q_proj.weight":        {"model.layers.0.q_proj.weight"},
		"tensor a (and 1 more)":                      {"a", "b"},
		"tensor b (and 2 more)":                      {"a b", "b", "c"},
		"tensor " + long[1:]:                         {long[1:]},
		"a tensor with an unusual name":              {long},
		"a tensor with an unusual name (and 4 more)": {"", "root:x:0:0", "a\nb", "\x1b[2J", "ä"},
	} {
		if got := modelfile.Named("tensor", names...); got != want {
			t.Errorf("%q: got %q, want %q", names, got, want)
		}
	}
}
