// Package chat renders conversations with a model's chat template: Jinja, as the Python library
// transformers runs it.
//
// A template comes with the model and is trusted no more than the model. It cannot read files. Its
// steps, depth, memory and time are limited (see budget), since Go can recover neither from a stack
// overflow nor from running out of memory. Only the filters, tests, tags and functions that chat
// templates use are supported; others are rejected when the template is loaded.
//
// gonja parses templates, and this package evaluates them, since gonja's own evaluation cannot be
// limited from outside.
package chat
