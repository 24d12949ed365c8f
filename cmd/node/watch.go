package main

import (
	"time"

	"troupe/core/replica"
)

// watch returns the bounds of steps and the interval of canaries.
func (s settings) watch() *replica.Watch {
	w := replica.DefaultWatch
	for option, value := range map[*time.Duration]string{
		&w.StepTimeout: s.StepTimeout, &w.HungTimeout: s.HungTimeout, &w.Canary: s.CanaryInterval,
	} {
		if value != "" {
			*option, _ = time.ParseDuration(value) // validated with the other options
		}
	}
	return &w
}
