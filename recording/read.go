package recording

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"troupe/workload"
)

// maxLine is the length of the longest line in bytes.
const maxLine = 1 << 26

// Recording is a recording that was read. Its requests, decisions and events are in the order of their times.
type Recording struct {
	Header    Header
	Snapshot  Snapshot
	Requests  []Request
	Decisions []Decision
	Events    []Event
	Samples   []Sample
	Lost      []Lost
	End       End
	Complete  bool // it has a last line; otherwise End.At is the last time in it
}

// Open reads the recording in a file.
func Open(path string) (*Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	defer f.Close()
	return Read(f, path)
}

// Read reads a recording and checks it. name is for errors, which have the line and a remedy. A recording that ends in
// the middle of a line is read up to there.
func Read(from io.Reader, name string) (*Recording, error) {
	r := &reader{name: name}
	zip, err := gzip.NewReader(from)
	if err != nil {
		return nil, r.wrong("", "is not a recording: "+err.Error(), "use a file that troupe record wrote")
	}
	in := bufio.NewReaderSize(zip, 1<<16)
	for {
		text, err := readLine(in)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break // a line without an end is not complete
		}
		r.line++
		if err != nil {
			return nil, r.wrong("", "cannot be read: "+err.Error(), "record again; the file is damaged")
		}
		if err := r.add(text); err != nil {
			return nil, err
		}
	}
	return r.finish()
}

// readLine returns a line without its end.
func readLine(in *bufio.Reader) ([]byte, error) {
	var all []byte
	for {
		part, err := in.ReadSlice('\n')
		if all = append(all, part...); err == nil {
			return all[:len(all)-1], nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if len(all) > maxLine {
			return nil, errors.New("it is too long")
		}
	}
}

type reader struct {
	name string
	line int
	to   Recording
}

func (r *reader) wrong(key, problem, remedy string) error {
	return &workload.Error{File: r.name, Line: r.line, Key: key, Problem: problem, Remedy: remedy}
}

// add adds a line.
func (r *reader) add(text []byte) error {
	var l Line
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&l); err != nil {
		return r.invalid(text, err)
	}
	at, err := r.put(l)
	if err != nil {
		return err
	}
	if !(at >= 0 && at < 1e9) {
		return r.wrong("at", fmt.Sprintf("is %v", at), "write seconds since the beginning, or remove the line")
	}
	r.to.End.At = max(r.to.End.At, at)
	return nil
}

// invalid describes an error of the decoder. A header of a later version may have other fields.
func (r *reader) invalid(text []byte, err error) error {
	var version struct {
		Recording struct{ Version int }
	}
	if json.Unmarshal(text, &version) == nil && version.Recording.Version > Version {
		return r.version(version.Recording.Version)
	}
	key := ""
	if typed := (*json.UnmarshalTypeError)(nil); errors.As(err, &typed) {
		key, err = typed.Field, errors.New("cannot be a "+typed.Value)
	}
	return r.wrong(key, "is not valid: "+strings.TrimPrefix(err.Error(), "json: "),
		"correct the line as docs/reference/recordings.md says, or remove it")
}

func (r *reader) version(is int) error {
	return r.wrong("recording.version", fmt.Sprintf("is %d", is),
		fmt.Sprintf("this program reads version %d; use the one that recorded", Version))
}

// put adds what a line has, and returns its time.
func (r *reader) put(l Line) (at float64, err error) {
	if set := l.fields(); set != 1 {
		return 0, r.wrong("", fmt.Sprintf("has %d kinds", set), "write one of recording, snapshot, request, decision, "+
			"event, sample, lost and end, or remove the line")
	}
	switch {
	case l.Header != nil:
		if l.Header.Version != Version {
			return 0, r.version(l.Header.Version)
		}
		if r.line != 1 {
			return 0, r.wrong("recording", "is not the first line", "do not join recordings")
		}
		r.to.Header = *l.Header
		return 0, nil
	case r.line == 1:
		return 0, r.wrong("", "is no header", "use a file that troupe record wrote")
	case l.Snapshot != nil:
		r.to.Snapshot = *l.Snapshot
		return 0, r.checkSnapshot(*l.Snapshot)
	case l.Request != nil:
		r.to.Requests = append(r.to.Requests, *l.Request)
		return l.Request.At, r.checkRequest(*l.Request)
	case l.Decision != nil:
		r.to.Decisions = append(r.to.Decisions, *l.Decision)
		if err := l.Decision.Saw.Check(); err != nil {
			return 0, r.wrong("saw", "is not valid: "+err.Error(), "correct or remove the line")
		}
		return l.Decision.At, nil
	case l.Event != nil:
		r.to.Events = append(r.to.Events, *l.Event)
		return l.Event.At, nil
	case l.Sample != nil:
		r.to.Samples = append(r.to.Samples, *l.Sample)
		return l.Sample.At, nil
	case l.Lost != nil:
		r.to.Lost = append(r.to.Lost, *l.Lost)
		return l.Lost.At, nil
	}
	r.to.End, r.to.Complete = *l.End, true
	return l.End.At, nil
}

func (l Line) fields() (n int) {
	for _, set := range []bool{l.Header != nil, l.Snapshot != nil, l.Request != nil, l.Decision != nil,
		l.Event != nil, l.Sample != nil, l.Lost != nil, l.End != nil} {
		if set {
			n++
		}
	}
	return n
}

func (r *reader) finish() (*Recording, error) {
	if r.to.Header.Version == 0 || r.to.Snapshot.Nodes == nil {
		return nil, r.wrong("", "ends before the snapshot", "record again, and longer")
	}
	slices.SortStableFunc(r.to.Requests, func(a, b Request) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID))
	})
	slices.SortStableFunc(r.to.Decisions, func(a, b Decision) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(r.to.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return &r.to, nil
}
