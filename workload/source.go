package workload

import (
	"cmp"
	"iter"
	"time"
)

// Source is a stream of requests in order of arrival. An error ends it.
type Source = iter.Seq2[Request, error]

// Of returns a source of the given requests, which must be in order of arrival.
func Of(requests []Request) Source {
	return func(yield func(Request, error) bool) {
		for _, r := range requests {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Collect returns all requests of a source.
func Collect(from Source) (all []Request, err error) {
	for r, err := range from {
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// failed returns a source that fails at once.
func failed(err error) Source {
	return func(yield func(Request, error) bool) { yield(Request{}, err) }
}

// Scale multiplies the rate of arrivals by a factor, which must be positive: it shrinks all gaps.
func Scale(from Source, factor float64) Source {
	return each(from, func(r Request) (Request, bool) {
		r.At = time.Duration(float64(r.At) / factor)
		return r, true
	})
}

// Cut returns the requests that arrive from begin until before end, as if begin was 0.
func Cut(from Source, begin, end time.Duration) Source {
	return func(yield func(Request, error) bool) {
		for r, err := range from {
			if err == nil && r.At >= end {
				return
			}
			if err == nil && r.At < begin {
				continue
			}
			r.At -= begin
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// each applies a function to all requests, and leaves out those for which it returns false.
func each(from Source, change func(Request) (Request, bool)) Source {
	return func(yield func(Request, error) bool) {
		for r, err := range from {
			keep := true
			if err == nil {
				r, keep = change(r)
			}
			if keep && (!yield(r, err) || err != nil) {
				return
			}
		}
	}
}

// Merge returns the requests of all sources in order of arrival. Of requests at the same time, those of
// an earlier source are first.
func Merge(sources ...Source) Source {
	return func(yield func(Request, error) bool) {
		heads := make([]head, 0, len(sources))
		for i, s := range sources {
			next, stop := iter.Pull2(s)
			defer stop()
			h := head{source: i, next: next}
			if h.advance() {
				heads = append(heads, h)
			}
		}
		for i := len(heads)/2 - 1; i >= 0; i-- {
			sink(heads, i)
		}
		for len(heads) > 0 {
			first := &heads[0]
			if !yield(first.request, first.err) || first.err != nil {
				return
			}
			if !first.advance() {
				heads[0] = heads[len(heads)-1]
				heads = heads[:len(heads)-1]
			}
			sink(heads, 0)
		}
	}
}

// head is the next request of a source.
type head struct {
	source  int
	request Request
	err     error
	next    func() (Request, error, bool)
}

func (h *head) advance() (ok bool) {
	h.request, h.err, ok = h.next()
	return ok
}

// compare orders heads by arrival. An error is first.
func (h *head) compare(other *head) int {
	if (h.err != nil) != (other.err != nil) {
		return map[bool]int{true: -1, false: 1}[h.err != nil]
	}
	return cmp.Or(cmp.Compare(h.request.At, other.request.At), cmp.Compare(h.source, other.source))
}

// sink restores the heap below element i.
func sink(heads []head, i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heads); child++ {
			if heads[child].compare(&heads[least]) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		heads[i], heads[least] = heads[least], heads[i]
		i = least
	}
}
