package gpu

import (
	"troupe/core/health"
	weights "troupe/core/residency"
	"troupe/engine"
	"troupe/engine/residency"
)

// Messages to self: results of jobs.
type (
	inspected struct {
		incarnation uint64
		spec        engine.LoadSpec
		facts       residency.Inspected
		err         error
	}
	weightsLoaded struct {
		incarnation uint64
		copy        uint64
		content     weights.Content
		err         error
	}
	weightsFreed struct {
		incarnation uint64
		copy        uint64
		park        *parkResult // nil: they were not to be parked
		err         error
	}
	opened struct {
		incarnation uint64
		lease       string
		model       residency.Loaded
		err         error
	}
	unloaded struct {
		incarnation uint64
		lease       string
		bytes       int64
		err         error
	}
	resized struct {
		incarnation uint64
		lease       string
		attempt     uint64
		model       residency.Loaded
		err         error
	}
	adaptersLeased struct {
		incarnation uint64
		lease       string
		attempt     uint64
		model       residency.Loaded
		err         error
	}
	pagesChanged struct {
		incarnation uint64
		lease       string
		attempt     uint64
		model       residency.Loaded
		err         error
	}
	observed struct {
		incarnation uint64
		seen        health.Observation
		err         error
	}
	tested struct {
		incarnation uint64
		err         error
	}
)

// Messages to self: timers.
type (
	tick         struct{ incarnation uint64 }
	observeNow   struct{ incarnation uint64 }
	imageTimeout struct {
		incarnation uint64
		request     string
	}
	turnTimeout struct {
		incarnation uint64
		number      uint64
		expected    string // a replica that an earlier incarnation knew; empty: of the turn in progress
	}
	poolTimeout struct {
		incarnation uint64
		lease       string
		attempt     uint64
	}
	shrinkTimeout struct {
		incarnation uint64
		lease       string
		attempt     uint64
	}
)
