package adapters

import (
	"fmt"
	"image/color"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

var colors = []color.RGBA{
	{0x99, 0x99, 0x99, 255}, {0x1f, 0x77, 0xb4, 255}, {0x2c, 0xa0, 0x2c, 255}, {0xd6, 0x27, 0x28, 255},
	{0xff, 0x7f, 0x0e, 255},
}

// draw plots the distributions of the time to first token for one seed.
func draw(path string, names []string, outcomes []Outcome) error {
	p := plot.New()
	p.Title.Text = "Time to first token (simulated)"
	p.X.Label.Text, p.Y.Label.Text = "milliseconds", "share of requests"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for i, o := range outcomes {
		const points = 200
		line := make(plotter.XYs, points)
		for j := range line {
			at := o.first[(len(o.first)-1)*j/(points-1)]
			line[j] = plotter.XY{X: float64(at) / float64(time.Millisecond), Y: float64(j) / (points - 1)}
		}
		l, err := plotter.NewLine(line)
		if err != nil {
			return err
		}
		l.Color, l.Width = colors[i], vg.Points(1.5)
		p.Add(l)
		p.Legend.Add(names[i], l)
	}
	if err := p.Save(18*vg.Centimeter, 11*vg.Centimeter, path); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}
