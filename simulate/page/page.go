package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"troupe/simulate"
)

//go:embed page.html
var source string

var layout = template.Must(template.New("page").Parse(source))

// view is what the page shows.
type view struct {
	Title, Subtitle, Program string
	Models                   []legend
	Overview                 []figurePlot // of several alternatives
	Columns                  []column     // one for each alternative with figures over time
	Left                     string       // why there are none, if there are none
	Several                  bool         // alternatives
	Titles                   []string
	Rows                     []row
}

// legend is a model with the number of its color.
type legend struct {
	Name  string
	Color string
}

// figurePlot is a plot with its heading.
type figurePlot struct {
	Heading string
	SVG     template.HTML // drawn by this package, with all texts escaped
}

// column has the plots of one alternative.
type column struct {
	Heading string
	Plots   []figurePlot
}

// row is a line of the table.
type row struct {
	Alternative, Model string
	Cells              []string
}

// page is what is needed to draw.
type page struct {
	all    []simulate.Alternative
	labels []string // of the alternatives
	models []string // of all alternatives, in the order of their colors
}

// Write writes a page with alternatives, or with a single one. Figures over time are those of the first run
// of each; without a Series they are left out. The program is the version that is named on the page.
func Write(to io.Writer, all []simulate.Alternative, program string) error {
	p := &page{all: all, labels: labelsOf(all)}
	for _, m := range simulate.RowsOf(all) {
		if m != simulate.AllModels {
			p.models = append(p.models, m)
		}
	}
	first := all[0].Runs[0]
	v := view{Title: first.Scenario + ": simulated", Program: program, Titles: simulate.Titles(all),
		Subtitle: simulate.Seeds(all[0].Runs) + ", " + duration(first.Seconds) + " of virtual time",
		Several:  len(all) > 1}
	if len(all) > 1 {
		v.Title = fmt.Sprintf("%d alternatives: simulated", len(all))
		v.Subtitle = simulate.Seeds(all[0].Runs) + " of each"
		v.Overview = p.overview()
	}
	for _, m := range p.models {
		v.Models = append(v.Models, legend{m, p.class(m)})
	}
	for i, a := range all {
		if a.Runs[0].Series != nil {
			v.Columns = append(v.Columns, p.column(i))
		}
		for _, model := range a.Rows() {
			v.Rows = append(v.Rows, row{p.labels[i], model, a.Cells(all, model)})
		}
	}
	if len(v.Columns) == 0 {
		v.Left = "Figures over time are left out, because there are too many alternatives."
	}
	return layout.Execute(to, v)
}

// labelsOf returns what alternatives are called on the page: by the values of their keys, or by a letter
// and their file.
func labelsOf(all []simulate.Alternative) (labels []string) {
	for i, a := range all {
		var values []string
		for _, s := range a.Set {
			values = append(values, s.Value)
		}
		switch {
		case len(values) > 0:
			labels = append(labels, strings.Join(values, " / "))
		case len(all) > 1:
			labels = append(labels, simulate.Letter(i)+": "+a.Name)
		default:
			labels = append(labels, a.Name)
		}
	}
	return labels
}

// class returns the class of a model's color. All models together have the color of the text.
func (p *page) class(model string) string {
	at := slices.Index(p.models, model)
	if at < 0 {
		return "all"
	}
	class := fmt.Sprint("c", at%colors)
	if at >= colors {
		class += " dashed"
	}
	return class
}

// colors is the number of colors; further models have dashed lines.
const colors = 8
