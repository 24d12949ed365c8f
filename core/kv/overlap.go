package kv

import (
	"fmt"
	"time"
)

// BeginQuestion asks whether a sequence's prefill may begin while its blocks are still being restored, part by part of their layers.
type BeginQuestion struct {
	Parts   int           // of equal size
	Came    int           // of them, leading
	First   time.Duration // for the first one
	Took    time.Duration // for those that came
	Tokens  int           // that the first step computes for the sequence
	Prefill Rate          // tokens a second
}

// BeginChoice is the answer.
type BeginChoice struct {
	Begin bool
	Left  time.Duration // until the last part has come
	Why   string
}

// Choose lets the prefill begin as soon as no layer of its step will have to wait: whoever is in the step beside it loses nothing, and the step ends
// as early as if it had begun with the restore and waited. What was never measured is waited for.
func (q BeginQuestion) Choose() BeginChoice {
	compute, known := q.Prefill.Time(float64(q.Tokens))
	switch {
	case q.Came >= q.Parts:
		return BeginChoice{Begin: true, Why: "all parts have come"}
	case q.Came == 0:
		return BeginChoice{Why: "no part has come yet"}
	}
	each := q.each()
	c := BeginChoice{Left: seconds(float64(q.Parts-q.Came) * each)}
	if !known {
		c.Why = "no prefill was measured yet"
		return c
	}
	// Part p comes in (p-Came+1)*each, and is wanted p/Parts through the step. That is linear in p: no part is late where neither end is.
	late := func(part int) float64 {
		return float64(part-q.Came+1)*each - float64(part)/float64(q.Parts)*compute
	}
	c.Begin = late(q.Came) <= 0 && late(q.Parts-1) <= 0
	c.Why = fmt.Sprintf("%d of %d parts are to come in %v, and the step takes %v", q.Parts-q.Came, q.Parts, c.Left.Round(time.Microsecond), seconds(compute).Round(time.Microsecond))
	return c
}

// each is how many seconds a part takes. The first one, which may have waited for the way to another node, says so only where it is alone.
func (q BeginQuestion) each() float64 {
	if q.Came == 1 {
		return q.Took.Seconds()
	}
	return (q.Took - q.First).Seconds() / float64(q.Came-1)
}
