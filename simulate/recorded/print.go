package recorded

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

func whole(f float64) string   { return strconv.FormatFloat(f, 'f', 0, 64) }
func decimal(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }
func percent(f float64) string { return strconv.FormatFloat(100*f, 'f', 1, 64) + " %" }

func seconds(f float64) string {
	return strconv.FormatFloat(f*1e3, 'f', 2, 64) + " ms"
}

// figure formats a figure; an unknown one is "-".
func (m Metric) figure(of *float64) string {
	if of == nil {
		return "-"
	}
	return m.text(*of)
}

// ErrorText returns the error with its sign, such as "+3.1 %".
func (m Metric) ErrorText() string {
	if m.Error == nil {
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", 100**m.Error)
}

// RecordedText and SimulatedText return the figures with their units.
func (m Metric) RecordedText() string  { return m.figure(m.Recorded) }
func (m Metric) SimulatedText() string { return m.figure(m.Simulated) }

// Print prints the metrics, and names the worst case.
func Print(to io.Writer, name string, took time.Duration, all []Metric) error {
	fmt.Fprintf(to, "Simulated against recorded: %s, %v\n\n", name, took.Round(time.Second))
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tMETRIC\tRECORDED\tSIMULATED\tERROR")
	for _, m := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", m.Model, m.Name, m.RecordedText(), m.SimulatedText(), m.ErrorText())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if worst, ok := Worst(all); ok {
		_, err := fmt.Fprintf(to, "\nWorst: %s of %s, %s\n", worst.Name, worst.Model, worst.ErrorText())
		return err
	}
	return nil
}
