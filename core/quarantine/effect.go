package quarantine

import (
	"time"

	"troupe/core/health"
)

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

type (
	// Observe requests an observation of the device after a delay. The caller reports Observed or
	// NotObserved.
	Observe struct{ After time.Duration }

	// RunTest starts the self-test. The caller reports Tested.
	RunTest struct{}

	// UnloadAll frees the memory of the models on the device.
	UnloadAll struct{}
)

// Answers, one for each request.
type (
	// AnswerQuarantine answers a Quarantine request.
	AnswerQuarantine struct{ To Request }

	// AnswerRelease reports to the requester that the device is not quarantined.
	AnswerRelease struct{ To Request }

	// RefuseRelease reports to the requester that the device is still quarantined.
	RefuseRelease struct {
		To  Request
		Why string
	}
)

// Notices, for logs and events.
type (
	// Began reports the start of a quarantine.
	Began struct {
		Cause  health.Cause
		Detail string
	}

	// Ended reports the end of a quarantine.
	Ended struct{ Why string }

	// Noted reports an unusual observation that is not a fault.
	Noted struct{ Detail string }

	// TestFailed reports a failed self-test.
	TestFailed struct{ Detail string }

	// Ignored reports an event that changed nothing.
	Ignored struct {
		State State
		Event Event
		Why   string
	}
)

func (Observe) isEffect()          {}
func (RunTest) isEffect()          {}
func (UnloadAll) isEffect()        {}
func (AnswerQuarantine) isEffect() {}
func (AnswerRelease) isEffect()    {}
func (RefuseRelease) isEffect()    {}
func (Began) isEffect()            {}
func (Ended) isEffect()            {}
func (Noted) isEffect()            {}
func (TestFailed) isEffect()       {}
func (Ignored) isEffect()          {}
