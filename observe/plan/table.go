package plan

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/messages"
)

// table has rows of cells, which are written in columns.
type table [][]string

// write writes the rows. The last column is not padded.
func (t table) write(b *strings.Builder) {
	var width []int
	for _, row := range t {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range t {
		line := ""
		for i, cell := range row {
			line += fmt.Sprintf("%-*s  ", width[i], cell)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// rate formats the sequences per second of a model.
func rate(d *messages.ModelFigures) string {
	if d == nil || d.Rate == nil {
		return "-"
	}
	return strconv.FormatFloat(d.GetRate(), 'f', 1, 64)
}

// length formats a time with three digits.
func length(d *durationpb.Duration) string {
	if d == nil {
		return "-"
	}
	of := d.AsDuration()
	for unit := time.Microsecond; unit <= time.Minute; unit *= 10 {
		if of < 1000*unit {
			return of.Round(unit).String()
		}
	}
	return of.Round(time.Second).String()
}

func clock(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05") }
