package tokenizer

import "strings"

// Stopper looks for stop strings in a text that comes in pieces. It holds back what may be the beginning of one.
type Stopper struct {
	stops   []string
	held    string
	stopped bool
}

// NewStopper returns a stopper; empty stop strings are passed over.
func NewStopper(stops []string) *Stopper {
	s := &Stopper{}
	for _, stop := range stops {
		if stop != "" {
			s.stops = append(s.stops, stop)
		}
	}
	return s
}

// Push takes a piece and returns the text that is certain to be before any stop string, and whether one was found: the
// text then ends before the first.
func (s *Stopper) Push(piece string) (text string, stopped bool) {
	if s.stopped {
		return "", true
	}
	s.held += piece
	at := len(s.held)
	for _, stop := range s.stops {
		if i := strings.Index(s.held, stop); i >= 0 && i < at {
			at, s.stopped = i, true
		}
	}
	if !s.stopped {
		at -= s.pending()
	}
	text, s.held = s.held[:at], s.held[at:]
	return text, s.stopped
}

// pending is the length of the longest tail that begins a stop string.
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

// Flush returns what was held back: no more comes.
func (s *Stopper) Flush() string {
	if s.stopped {
		return ""
	}
	text := s.held
	s.held = ""
	return text
}
