package gpu

import (
	"troupe/core/health"
	"troupe/engine"
	"troupe/engine/residency"
)

// Messages to self: results of jobs.
type (
	inspected struct {
		incarnation uint64
		spec        engine.LoadSpec
		facts       engine.ModelInfo
		err         error
	}
	loaded struct {
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
	tick          struct{ incarnation uint64 }
	observeNow    struct{ incarnation uint64 }
	shrinkTimeout struct {
		incarnation uint64
		lease       string
		attempt     uint64
	}
)
