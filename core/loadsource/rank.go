package loadsource

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"troupe/core/units"
)

// Resolution is the step in which expected times are compared.
const Resolution = 20 * time.Millisecond

// maxFigures bounds the sources whose figures are in a reason.
const maxFigures = 4

// Candidate is a source that has the weights.
type Candidate struct {
	Path
	Name    string
	Direct  bool   // it is a device that is reached directly
	Suspect string // why it must not be chosen; empty: it may be
}

// defaultOrder has the kinds by the speeds that are assumed.
var defaultOrder = []Kind{Host, Device, DiskImage, Folder, Node, NodeDevice}

// Expected returns how long a load from a candidate is expected to take.
func (s *Speeds) Expected(c Candidate, bytes int64) time.Duration {
	v, _ := s.Of(c.Path, c.Direct)
	return timeOf(bytes, v)
}

// longest bounds the expected time of a source.
const longest = 1000 * time.Hour

func timeOf(bytes int64, perSecond float64) time.Duration {
	if seconds := float64(bytes) / perSecond; seconds < longest.Seconds() {
		return time.Duration(seconds * float64(time.Second))
	}
	return longest
}

func steps(d time.Duration) time.Duration { return (d + Resolution - 1) / Resolution }

// Beats reports whether any source of a kind is expected to bring bytes to a device faster than a candidate.
func (s *Speeds) Beats(k Kind, c Candidate, bytes int64) bool {
	return steps(timeOf(bytes, s.Best(k, c.To))) < steps(s.Expected(c, bytes))
}

// Rank returns the indices of the candidates that may be chosen, the one to choose first, and why.
func (s *Speeds) Rank(bytes int64, all []Candidate) (order []int, why string) {
	for i, c := range all {
		if c.Suspect == "" {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := all[i], all[j]
		left, _ := s.Of(a.Path, a.Direct)
		right, _ := s.Of(b.Path, b.Direct)
		return cmp.Or(
			cmp.Compare(steps(timeOf(bytes, left)), steps(timeOf(bytes, right))),
			cmp.Compare(slices.Index(defaultOrder, a.Kind), slices.Index(defaultOrder, b.Kind)),
			cmp.Compare(right, left),
		)
	})
	return order, s.why(bytes, all, order)
}

func (s *Speeds) why(bytes int64, all []Candidate, order []int) string {
	var figures []string
	for _, i := range order[:min(len(order), maxFigures)] {
		figures = append(figures, s.figure(bytes, all[i]))
	}
	var text string
	switch len(figures) {
	case 0:
	case 1:
		text = "the expected time is " + figures[0]
	default:
		text = "the expected times are " + strings.Join(figures, ", ")
	}
	for _, c := range all {
		if c.Suspect != "" {
			text += fmt.Sprintf("; not %s: %s", c.Name, c.Suspect)
		}
	}
	return strings.TrimPrefix(text, "; ")
}

func (s *Speeds) figure(bytes int64, c Candidate) string {
	v, measured := s.Of(c.Path, c.Direct)
	how := "assumed"
	if measured {
		how = "measured"
	}
	return fmt.Sprintf("%.3g s (%s: %s/s %s)", timeOf(bytes, v).Seconds(), c.Name, units.FormatBytes(int64(v)), how)
}
