package main

import (
	"os"

	"troupe/simulate"
)

const mostPanels = 12

func (s simulateCommand) writePage(all []simulate.Alternative) error { return os.ErrInvalid }
