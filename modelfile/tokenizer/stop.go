package tokenizer

import "strings"

// Stopper looks for stop strings in a text that arrives in pieces, and holds back a possible start
// of one.
//
// The stop string that completes first wins, and the longest of those that complete at the same
// position. The result does not depend on how the text is split.
type Stopper struct {
	stops   []string
	include bool
	held    string
	stopped bool
}

// NewStopper returns a stopper; empty stop strings are ignored.
func NewStopper(stops []string) *Stopper {
	s := &Stopper{}
	for _, stop := range stops {
		if stop != "" {
			s.stops = append(s.stops, stop)
		}
	}
	return s
}

// Include makes the returned text include the stop string.
func (s *Stopper) Include() *Stopper {
	s.include = true
	return s
}

// Push adds a piece. It returns the text that is certain to be before any stop string, and whether
// a stop string was found, which ends the text.
func (s *Stopper) Push(piece string) (text string, stopped bool) {
	if s.stopped {
		return "", true
	}
	s.held += piece
	start, end := s.match()
	switch {
	case end == 0:
		start = len(s.held) - s.pending()
	case s.include:
		start = end
	}
	s.stopped = end > 0
	text, s.held = s.held[:start], s.held[start:]
	return text, s.stopped
}

// match finds a stop string at held[start:end]; end is 0 if there is none.
func (s *Stopper) match() (start, end int) {
	for _, stop := range s.stops {
		from := strings.Index(s.held, stop)
		to := from + len(stop)
		if from >= 0 && (end == 0 || to < end || to == end && from < start) {
			start, end = from, to
		}
	}
	return start, end
}

// pending returns the length of the longest suffix that starts a stop string.
func (s *Stopper) pending() int {
	longest := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.held)); n > longest; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// Flush returns the text held back, at the end of the text.
func (s *Stopper) Flush() string {
	if s.stopped {
		return ""
	}
	text := s.held
	s.held = ""
	return text
}
