package dst

import (
	"strings"
	"unicode/utf8"

	"troupe/core/sample"
)

// wanted is what a choice of a response must be.
type wanted struct {
	text       string
	tokens     []sample.Token
	offsets    []int  // of the tokens, in characters of the text
	finish     string // finish reason
	completion int    // generated tokens, including the one that ended the output
}

// expectation determines a choice.
type expectation struct {
	revision    string // of the model; see revisionOf
	prompt      []uint32
	echoed      string // the text begins with it
	sampling    sample.Params
	limits      limits
	stop        string // "": none
	includeStop bool
}

// want returns what the choice must be.
func (e expectation) want() (w wanted) {
	tokens, stopped := generate(e.prompt, e.revision, e.sampling, e.limits)
	stream := textOf().NewStream(true).Continue()
	text := ""
	for i, t := range tokens {
		w.tokens = append(w.tokens, t)
		w.offsets = append(w.offsets, utf8.RuneCountInString(e.echoed+text))
		text += stream.Push(t.ID)
		if at := strings.Index(text, e.stop); e.stop != "" && at >= 0 {
			if e.includeStop {
				at += len(e.stop)
			}
			w.text, w.finish, w.completion = e.echoed+text[:at], "stop", i+1
			return w
		}
	}
	w.text, w.finish, w.completion = e.echoed+text+stream.Flush(), "length", len(tokens)
	if stopped {
		w.finish, w.completion = "stop", len(tokens)+1
	}
	return w
}
