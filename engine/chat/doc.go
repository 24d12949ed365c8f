// Package chat renders conversations with the chat template of a model: Jinja, as the Python library transformers runs it.
//
// A template comes with the model, and is trusted no more than that. It reads no files. Its steps, its depth, its bytes and
// its time are bounded (see budget), since Go can recover from neither a full stack nor memory that has run out. Filters,
// tests, tags and functions are those that chat templates use; others are refused when the template is loaded.
//
// gonja parses templates, and this package evaluates them: gonja's own evaluation cannot be bounded from outside.
package chat
