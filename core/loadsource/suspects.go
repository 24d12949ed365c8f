package loadsource

// maxSuspects bounds the suspects of a node.
const maxSuspects = 256

// Suspects are sources that delivered weights which computed other tokens than those recorded at the first
// load, while another source delivered the right ones. A suspect is not chosen again for the same content
// until it changes. It is not safe for concurrent use.
type Suspects struct {
	all   map[suspect]suspicion
	order []suspect // the oldest first
}

// suspect is a source of a content.
type suspect struct{ content, source string }

type suspicion struct{ version, why string }

// Suspect notes that a source is not to be chosen for a content. The version is what the source has: if it
// changes, the suspicion is over.
func (s *Suspects) Suspect(content, source, version, why string) {
	if s.all == nil {
		s.all = make(map[suspect]suspicion)
	}
	one := suspect{content, source}
	if _, there := s.all[one]; !there {
		if s.order = append(s.order, one); len(s.order) > maxSuspects {
			delete(s.all, s.order[0])
			s.order = s.order[1:]
		}
	}
	s.all[one] = suspicion{version, why}
}

// Why returns why a source is not to be chosen for a content, as long as it has the version that it was
// suspected with.
func (s *Suspects) Why(content, source, version string) (why string, suspected bool) {
	found, ok := s.all[suspect{content, source}]
	if !ok || found.version != version {
		return "", false
	}
	return found.why, true
}
