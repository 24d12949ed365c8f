package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"troupe/core/cost"
	"troupe/core/units"
)

// progress shows on a terminal how far a calibration is, in one line, and elsewhere what begins.
type progress struct {
	to       io.Writer
	terminal bool
	what     string
	shown    time.Time
}

// refresh is how often the line of a terminal changes.
const refresh = 100 * time.Millisecond

func (p *progress) report(what string, share float64) {
	switch {
	case !p.terminal && what != p.what:
		fmt.Fprintf(p.to, "measuring %s\n", what)
	case p.terminal && (what != p.what || time.Since(p.shown) >= refresh):
		const width = 20
		full := int(share * width)
		fmt.Fprintf(p.to, "\r\x1b[K%s%s %3.0f %%  %s", strings.Repeat("█", full), strings.Repeat("░", width-full),
			100*share, what)
		p.shown = time.Now()
	}
	p.what = what
}

// end removes the line.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}

func writesTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isTerminal(f)
}

// printProfile prints the fitted costs with their residuals.
func printProfile(to io.Writer, p cost.Profile) {
	fmt.Fprintf(to, "%s\n%s\n\n", p.Name, p.Steps.Origin)
	s := p.Steps
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	form := "the sum of"
	if s.Form == cost.Max {
		form = "fixed, and the larger of compute and memory, of"
	}
	fmt.Fprintf(w, "STEPS\ta step takes %s\n", form)
	for _, term := range []struct {
		name string
		us   float64
	}{
		{"fixed", s.FixedUS}, {"prompt token", s.PromptTokenUS}, {"decode sequence", s.DecodeSequenceUS},
		{"prompt pair", s.PromptPairUS}, {"context token", s.ContextTokenUS}, {"weights", s.WeightsUS},
	} {
		fmt.Fprintf(w, "  %s\t%.4g µs\n", term.name, term.us)
	}
	fmt.Fprintf(w, "  residuals\t%v\n", s.Residuals)
	fmt.Fprintf(w, "\nCOPIES\tLATENCY\tBANDWIDTH\tRESIDUALS\n")
	transferred(w, "host to device", p.Copies.HostToDevice)
	transferred(w, "device to host", p.Copies.DeviceToHost)
	transferred(w, "within the device", p.Copies.WithinDevice)
	transferred(w, "device to device", p.Copies.PeerToDevice)
	transferred(w, "disk to host", p.Copies.DiskToHost)
	transferred(w, "host to disk", p.Copies.HostToDisk)
	transferred(w, "to another node", p.Copies.Network)
	fmt.Fprintf(w, "\nLOADS OF %s\tLATENCY\tBANDWIDTH\tRESIDUALS\n", units.FormatBytes(p.Model.WeightBytes()))
	transferred(w, "folder", p.Loads.Folder)
	transferred(w, "image on disk", p.Loads.DiskImage)
	transferred(w, "host cache", p.Loads.HostCache)
	fmt.Fprintf(w, "\nPARTS OF SWITCHES\tMEDIAN\tP95\n")
	for _, part := range []struct {
		name string
		took *cost.Duration
	}{
		{"open the engine", p.Switches.Open}, {"capture graphs", p.Switches.Capture}, {"first step", p.Switches.First},
		{"to standby", p.Switches.Standby}, {"activate", p.Switches.Activate}, {"close the engine", p.Switches.Free},
		{"free the weights", p.Switches.FreeWeights}, {"park the weights", p.Switches.Park},
	} {
		if part.took != nil {
			fmt.Fprintf(w, "  %s\t%.4g µs\t%.4g µs\n", part.name, part.took.MedianUS, part.took.P95US)
		}
	}
	_ = w.Flush() // to standard output
	fmt.Fprintf(to, "\nRepeats of the same step differ by %.1f %% (median), %.1f %% (P95).\n", 100*p.Noise.Median,
		100*p.Noise.P95)
	if p.Noise.Noisy {
		fmt.Fprintf(to, "The machine was too noisy: more than %.0f %%. Calibrate again when it is idle.\n",
			100*cost.NoisyAbove)
	}
}

func transferred(w io.Writer, name string, t *cost.Transferred) {
	if t == nil {
		return
	}
	bandwidth := "unlimited"
	if t.BytesPerSecond > 0 {
		bandwidth = fmt.Sprintf("%.2f GB/s", t.BytesPerSecond/1e9)
	}
	fmt.Fprintf(w, "  %s\t%.4g µs\t%s\t%v\n", name, t.LatencyUS, bandwidth, t.Residuals)
}
