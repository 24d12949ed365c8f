package demand

import "time"

const (
	// Length is the time that a window covers.
	Length = 60 * time.Second
	// Slots is the number of slots of a window.
	Slots = 12
	// SlotLength is the time that a slot covers.
	SlotLength = Length / Slots
	// RecentSeconds is the number of whole seconds whose arrivals Figures.Recent counts.
	RecentSeconds = 5
)

// Figures are what one or more gateways saw of a model.
type Figures struct {
	Observed time.Duration // time that the figures cover; 0: nothing is known
	Arrivals uint64        // sequences
	Recent   uint64        // arrivals within the last RecentSeconds whole seconds
	Finished uint64
	Refused  uint64

	TTFT, TPOT Sketch // seconds
	Prompt     Sketch // tokens
	Output     Sketch // tokens
}

// Merge adds what other gateways saw at the same time.
func (f *Figures) Merge(other Figures) {
	f.Observed = max(f.Observed, other.Observed)
	f.add(other)
	f.Recent += other.Recent
}

// Reset returns f to the zero value, and keeps the memory of its sketches.
func (f *Figures) Reset() {
	sketches := [...]Sketch{f.TTFT, f.TPOT, f.Prompt, f.Output}
	for _, s := range sketches {
		s.Reset()
	}
	*f = Figures{TTFT: sketches[0], TPOT: sketches[1], Prompt: sketches[2], Output: sketches[3]}
}

// add adds the counts and values of other, but not Observed and Recent.
func (f *Figures) add(other Figures) {
	f.Arrivals += other.Arrivals
	f.Finished += other.Finished
	f.Refused += other.Refused
	f.TTFT.Merge(other.TTFT)
	f.TPOT.Merge(other.TPOT)
	f.Prompt.Merge(other.Prompt)
	f.Output.Merge(other.Output)
}

// Rate returns the arrivals per second. It is unknown if nothing was observed.
func (f Figures) Rate() (perSecond float64, known bool) {
	if f.Observed <= 0 {
		return 0, false
	}
	return float64(f.Arrivals) / f.Observed.Seconds(), true
}

// Window is what one gateway saw of a model within the last Length.
type Window struct {
	began   time.Time // when the gateway started to observe
	slots   [Slots + 1]slot
	seconds [RecentSeconds + 1]second

	merged Figures // of all slots, when the slot number was in progress; Observed and Recent are not set
	number int64   // 0: merged is not up to date
}

// slot holds the figures of one SlotLength. A window sums the slot in progress and the Slots before it, so it
// covers at least Length.
type slot struct {
	number int64 // start of the slot / SlotLength, in Unix time
	seen   Figures
}

// second counts the arrivals of one second.
type second struct {
	number   int64 // in Unix time
	arrivals uint64
}

// NewWindow returns the window of a gateway that observes since began.
func NewWindow(began time.Time) *Window { return &Window{began: began} }

// Arrived counts a sequence that was submitted.
func (w *Window) Arrived(now time.Time) {
	w.at(now).Arrivals++
	n := now.Unix()
	s := &w.seconds[n%int64(len(w.seconds))]
	if s.number != n {
		*s = second{number: n}
	}
	s.arrivals++
}

// Refused counts a sequence that was refused.
func (w *Window) Refused(now time.Time) { w.at(now).Refused++ }

// FirstToken records the time to the first token of a request.
func (w *Window) FirstToken(now time.Time, ttft time.Duration) { w.at(now).TTFT.Add(ttft.Seconds()) }

// Finished records a sequence that ended with its last token: the lengths of its prompt and output in
// tokens, and the time from its first to its last token.
func (w *Window) Finished(now time.Time, prompt, output int, decode time.Duration) {
	f := w.at(now)
	f.Finished++
	f.Prompt.Add(float64(prompt))
	f.Output.Add(float64(output))
	if output > 1 {
		f.TPOT.Add(decode.Seconds() / float64(output-1))
	}
}

// at returns the slot of a time, emptied if its content is of an earlier round.
func (w *Window) at(now time.Time) *Figures {
	w.number = 0
	n := slotNumber(now)
	s := &w.slots[n%int64(len(w.slots))]
	if s.number != n {
		*s = slot{number: n}
	}
	return &s.seen
}

func slotNumber(now time.Time) int64 { return now.UnixNano() / int64(SlotLength) }

// Figures returns what was seen within the last Length, and in the slot in progress. The sketches are
// valid until the next call, and must not be changed.
func (w *Window) Figures(now time.Time) Figures {
	n := slotNumber(now)
	start := time.Unix(0, (n-Slots)*int64(SlotLength))
	if start.Before(w.began) {
		start = w.began
	}
	if w.number != n {
		w.merge(n)
	}
	all := w.merged
	all.Observed = max(now.Sub(start), 0)
	for _, s := range w.seconds {
		if age := now.Unix() - s.number; age > 0 && age <= RecentSeconds {
			all.Recent += s.arrivals
		}
	}
	return all
}

// merge adds up the slots that count while slot n is in progress.
func (w *Window) merge(n int64) {
	w.merged.Reset()
	w.number = n
	for number := n - Slots; number <= n; number++ { // in order of time, so that the result is always the same
		if s := &w.slots[number%int64(len(w.slots))]; s.number == number {
			w.merged.add(s.seen)
		}
	}
}

// Empty reports whether nothing was seen.
func (f Figures) Empty() bool {
	return f.Arrivals+f.Recent+f.Finished+f.Refused+f.TTFT.Count() == 0
}
