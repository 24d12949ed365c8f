package modelfile

import (
	"fmt"
	"regexp"
)

// plainName matches the names in a file that errors may show. Names of tensors and of settings have
// this form; lines of other files do not.
var plainName = regexp.MustCompile(`^[A-Za-z0-9._]{1,120}$`)

// Named describes the named things of a file in an error: "tensor a.weight", or "tensor a.weight
// (and 2 more)". It shows only the first plain name.
func Named(kind string, names ...string) string {
	what := "a " + kind + " with an unusual name"
	for _, name := range names {
		if plainName.MatchString(name) {
			what = kind + " " + name
			break
		}
	}
	if len(names) > 1 {
		what += fmt.Sprintf(" (and %d more)", len(names)-1)
	}
	return what
}
