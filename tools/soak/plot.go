package main

import (
	"fmt"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// panels returns the plots in rows: one plot per series, with a line per node.
func panels(samples []sample) ([][]*plot.Plot, error) {
	var rows [][]*plot.Plot
	for i, name := range series {
		p := plot.New()
		p.Title.Text, p.X.Label.Text, p.Y.Label.Text = name, "minutes", units[i]
		p.Y.Min, p.Legend.Top = 0, false
		p.Add(plotter.NewGrid())
		for n, node := range nodesOf(samples) {
			var points plotter.XYs
			for _, s := range samples {
				if s.node == node {
					points = append(points, plotter.XY{X: s.at.Minutes(), Y: s.values[i]})
					p.Y.Max = max(p.Y.Max, 1.1*s.values[i])
				}
			}
			line, err := plotter.NewLine(points)
			if err != nil {
				return nil, fmt.Errorf("plot of %s: %w", name, err)
			}
			line.Color, line.Width = plotutil.Color(n), vg.Points(1.2)
			p.Add(line)
			p.Legend.Add(node, line)
		}
		if i%2 == 0 {
			rows = append(rows, nil)
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], p)
	}
	return rows, nil
}

// draw writes the plot as SVG.
func draw(path string, samples []sample) error {
	rows, err := panels(samples)
	if err != nil {
		return err
	}
	canvas := vgsvg.New(24*vg.Centimeter, 16*vg.Centimeter)
	tiles := vgdraw.Tiles{
		Rows: len(rows), Cols: len(rows[0]), PadX: vg.Centimeter / 2, PadY: vg.Centimeter / 2,
		PadTop: vg.Centimeter / 4, PadRight: vg.Centimeter / 2, PadBottom: vg.Centimeter / 4,
	}
	for i, row := range plot.Align(rows, tiles, vgdraw.New(canvas)) {
		for j, at := range row {
			rows[i][j].Draw(at)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := canvas.WriteTo(f); err != nil {
		_ = f.Close() // the first error counts
		return fmt.Errorf("plot: %w", err)
	}
	return f.Close()
}
