package main

import (
	"errors"
	"os"

	"troupe/simulate"
	"troupe/simulate/page"
)

// mostPanels is the largest number of alternatives for which a page has figures over time.
const mostPanels = 12

// writePage writes the page with plots.
func (s simulateCommand) writePage(all []simulate.Alternative) error {
	f, err := os.Create(s.HTML)
	if err != nil {
		return err
	}
	return errors.Join(page.Write(f, all, build()), f.Close())
}
