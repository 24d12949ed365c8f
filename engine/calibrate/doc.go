// Package calibrate measures what steps, copies, loads and switches cost on a device, through the same
// engine that replicas use, and fits the costs of core/cost to the measurements.
//
// All parts of a measurement run in turn, one round after the other, so that a disturbance meets all of
// them alike. The figure of a part is the median of its rounds. Noise is how much the rounds of the same
// step differ.
//
// A step is measured at the engine: the times of the actors, of HTTP and of other replicas of the device
// are not in it. Prompts and contexts are random tokens that were computed before, and each sequence has
// KV blocks of its own. Steps sample at temperature 1.
//
// Loads from the folder read files that are not in the page cache. Loads of weights in an image on disk
// are past it too, and loads from host memory verify the image, as in a node. The canary that verifies
// loaded weights is not run.
package calibrate
