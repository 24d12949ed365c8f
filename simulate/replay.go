package simulate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Replay compares the decisions of a run with a record, as the Record of its Config. Its Write returns a
// *Difference at the first line that is not the same, byte for byte.
type Replay struct {
	Header  Header // of the record
	in      *bufio.Reader
	partial []byte // of the run's next line
	lines   int    // that are the same
	ended   bool   // the record
}

// Difference is the first line in which a run differs from its record. A line that is missing is empty.
type Difference struct {
	Line               int // of the record, from 1
	Recorded, Replayed string
}

// NewReplay reads the header of a record. Its first line is compared too.
func NewReplay(record io.Reader) (*Replay, error) {
	r := &Replay{in: bufio.NewReaderSize(record, 1<<16)}
	first, err := r.in.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := json.Unmarshal(first, &r.Header); err != nil || !r.Header.Simulated {
		return nil, errors.New("this is no record of a simulation; write one with " +
			`"troupe simulate SCENARIO --record FILE"`)
	}
	if r.Header.Text == "" {
		return nil, errors.New("the record lacks the text of its scenario; record it again")
	}
	r.in = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(first), r.in), 1<<16)
	return r, nil
}

// Decisions returns the number of lines that are the same so far, without the header.
func (r *Replay) Decisions() int { return max(0, r.lines-1) }

// Write compares what a run writes.
func (r *Replay) Write(b []byte) (int, error) {
	r.partial = append(r.partial, b...)
	for {
		line, rest, complete := bytes.Cut(r.partial, []byte("\n"))
		if !complete {
			r.partial = append(r.partial[:0], line...)
			return len(b), nil
		}
		recorded, err := r.next()
		if err != nil {
			return 0, err
		}
		if r.ended || !bytes.Equal(line, recorded) {
			return 0, &Difference{r.lines + 1, string(recorded), string(line)}
		}
		r.lines++
		r.partial = rest
	}
}

// next returns the next line of the record. At its end it sets r.ended.
func (r *Replay) next() ([]byte, error) {
	line, err := r.in.ReadBytes('\n')
	if r.ended = errors.Is(err, io.EOF) && len(line) == 0; r.ended || errors.Is(err, io.EOF) {
		err = nil
	}
	return bytes.TrimSuffix(line, []byte("\n")), err
}

// Close checks that the record has no more lines than the run.
func (r *Replay) Close() error {
	recorded, err := r.next()
	if err != nil || r.ended {
		return err
	}
	return &Difference{Line: r.lines + 1, Recorded: string(recorded)}
}

// Error describes both lines in words, and what differs.
func (d *Difference) Error() string {
	text := fmt.Sprintf("line %d is the first that differs:\n  recorded: %s\n  replayed: %s", d.Line,
		inWords(d.Recorded), inWords(d.Replayed))
	if d.Recorded != "" && d.Replayed != "" {
		text += "\n  different: " + changesOf(d.Recorded, d.Replayed)
	}
	return text
}
