package tokenizer

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/text/unicode/norm"

	"troupe/modelfile"
)

// maxGrowth is the factor by which all replacements of a tokenizer together may lengthen a text.
const maxGrowth = 64

func (t *Tokenizer) readNormalizer(f *file) error {
	growth := 1
	t.shrink = 1
	for _, p := range f.Normalizer.list() {
		switch {
		case p.Type == "NFC":
			t.shrink *= maxShrink
			t.normalize = append(t.normalize, norm.NFC.String)
		case p.Type == "NFKC":
			t.shrink *= maxShrink
			t.normalize = append(t.normalize, norm.NFKC.String)
		case p.Type == "Prepend":
			t.normalize = append(t.normalize, func(s string) string { return p.Prepend + s })
		case p.Type == "Replace" && p.Pattern.String != nil:
			replace, err := p.replacer(&growth)
			if err != nil {
				return fmt.Errorf("normalizer Replace: %w", err)
			}
			t.normalize = append(t.normalize, replace)
			t.shrink = shrunk(t.shrink, *p.Pattern.String, p.Content)
		default:
			return errors.New("unsupported type of normalizer; supported: NFC, NFKC, Prepend and Replace of a string")
		}
	}
	return nil
}

// replacer returns the function for a Replace of one string. growth is the total growth factor of
// the chain of replacements, which is limited.
func (p *part) replacer(growth *int) (func(string) string, error) {
	from, to := *p.Pattern.String, p.Content
	if from == "" {
		return nil, errors.New("the pattern is empty")
	}
	*growth *= min(maxGrowth+1, (len(to)+len(from)-1)/len(from))
	if *growth = max(1, *growth); *growth > maxGrowth {
		return nil, fmt.Errorf("the replacement can make a text more than %d times longer", maxGrowth)
	}
	return func(s string) string { return strings.ReplaceAll(s, from, to) }, nil
}

// shrunk returns the factor by which a text may be shortened after a further replacement; 0 means
// no bound.
func shrunk(before int, from, to string) int {
	if to == "" {
		return 0
	}
	return min(int(modelfile.Tokenizer), before*((len(from)+len(to)-1)/len(to)))
}
