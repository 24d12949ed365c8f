// Package plan prints what the planner decides as text: a plan with its reasons, why a model has what it
// has, and the plans that changed something. Figures that are unknown are shown as "-".
package plan
