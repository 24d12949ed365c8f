package steps

import (
	"context"
	"slices"
	"sync"

	"github.com/rs/zerolog"
)

// Step is one step of a start.
type Step struct {
	Name  string
	Start func(ctx context.Context) error // if it fails, it must have undone its own work
	Stop  func()                          // undoes Start; nil: there is nothing to undo
}

// Started are steps that have run.
type Started struct {
	log  zerolog.Logger
	mu   sync.Mutex
	done []Step
}

// Start runs all steps in order. If one fails, it stops those before it and logs the name of the
// failed step.
func Start(ctx context.Context, all []Step, log zerolog.Logger) (*Started, error) {
	s := &Started{log: log}
	for _, step := range all {
		if err := step.Start(ctx); err != nil {
			log.Warn().Str("step", step.Name).Msg("start failed; stopping the steps that ran")
			s.Stop()
			return nil, err
		}
		s.done = append(s.done, step)
		log.Debug().Str("step", step.Name).Msg("started")
	}
	return s, nil
}

// Stop stops all steps in reverse order. Further calls do nothing.
func (s *Started) Stop() {
	s.mu.Lock()
	done := s.done
	s.done = nil
	s.mu.Unlock()
	for _, step := range slices.Backward(done) {
		if step.Stop != nil {
			s.log.Debug().Str("step", step.Name).Msg("stopping")
			step.Stop()
		}
	}
}
