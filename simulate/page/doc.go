// Package page writes the results of simulations as one HTML page, which needs no network and no script:
// plots in SVG with titles to hover over, which devices ran which model, and a table.
//
// Plots are drawn here and not by gonum/plot, whose colors cannot follow the light or dark scheme of the
// reader, and whose lines have no titles.
package page
