package workload

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Options are what a trace does not say.
type Options struct {
	File  string // name of the file, for errors; empty: "trace"
	Model string // of all requests, if the trace names none
}

func (o Options) file() string {
	if o.File == "" {
		return "trace"
	}
	return o.File
}

// table reads a CSV file with a header, line by line.
type table struct {
	file    string
	in      *csv.Reader
	columns map[string]int
	row     []string
}

// openTable reads the header, which must have the given columns.
func openTable(from io.Reader, file string, columns ...string) (*table, error) {
	t := &table{file: file, in: csv.NewReader(from), columns: map[string]int{}}
	t.in.ReuseRecord = true
	header, err := t.in.Read()
	if errors.Is(err, io.EOF) {
		header, err = nil, nil
	}
	if err != nil {
		return nil, t.syntax(err)
	}
	for i, name := range header {
		t.columns[strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))] = i
	}
	for _, name := range columns {
		if _, ok := t.columns[name]; !ok {
			return nil, &Error{file, 1, "column " + name, "is missing",
				"the first line must name the columns " + strings.Join(columns, ", ")}
		}
	}
	return t, nil
}

// next reads a line. At the end of the file it returns io.EOF.
func (t *table) next() (err error) {
	if t.row, err = t.in.Read(); err != nil && !errors.Is(err, io.EOF) {
		return t.syntax(err)
	}
	return err
}

func (t *table) syntax(err error) error {
	if wrong := (*csv.ParseError)(nil); errors.As(err, &wrong) {
		return &Error{t.file, wrong.Line, "", wrong.Err.Error(),
			"write as many fields as the first line has, or remove the line"}
	}
	return fmt.Errorf("%s: %w", t.file, err)
}

func (t *table) text(column string) string { return t.row[t.columns[column]] }

// wrong returns an error about a field of the current line.
func (t *table) wrong(column, problem, remedy string) error {
	line, _ := t.in.FieldPos(t.columns[column])
	return &Error{t.file, line, column, fmt.Sprintf("%q %s", t.text(column), problem), remedy}
}

// number returns a field that is a finite number and at least 0.
func (t *table) number(column string) (float64, error) {
	v, err := strconv.ParseFloat(t.text(column), 64)
	if err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, t.wrong(column, "is not a number from 0", "write a decimal number, or remove the line")
	}
	return v, nil
}

// maxTokens is the greatest length of a prompt or output in a trace.
const maxTokens = 1 << 30

// tokens returns a field that is a number of tokens. An empty prompt or output counts as one token.
func (t *table) tokens(column string) (int, error) {
	v, err := t.number(column)
	if err != nil || v > maxTokens {
		return 0, t.wrong(column, "is not a number of tokens", "write a whole number, or remove the line")
	}
	return max(1, int(v)), nil
}

// timeLayouts are the forms of a time in a trace. Fractions of a second may follow.
var timeLayouts = []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", time.RFC3339}

// time returns a field that is a time.
func (t *table) time(column string) (time.Time, error) {
	for _, layout := range timeLayouts {
		if at, err := time.Parse(layout, t.text(column)); err == nil {
			return at, nil
		}
	}
	return time.Time{}, t.wrong(column, "is not a time", `write it as "2023-11-16 18:17:03.97", or remove the line`)
}

// order refuses a request that arrives before the one in the line above.
type order struct{ last time.Duration }

func (o *order) check(file string, line int, key string, at time.Duration) error {
	if at < o.last {
		return &Error{file, line, key, fmt.Sprintf("is %s earlier than in the line above", o.last-at),
			"sort the lines by time"}
	}
	o.last = at
	return nil
}

// rows returns a source with one request for each line of a table.
func rows(from io.Reader, o Options, at string, columns []string, read func(*table) (Request, error)) Source {
	return func(yield func(Request, error) bool) {
		t, err := openTable(from, o.file(), append([]string{at}, columns...)...)
		var sorted order
		for err == nil {
			if err = t.next(); err != nil {
				break
			}
			var r Request
			if r, err = read(t); err != nil {
				break
			}
			line, _ := t.in.FieldPos(0)
			if err = sorted.check(o.file(), line, at, r.At); err == nil && !yield(r, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(Request{}, err)
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
