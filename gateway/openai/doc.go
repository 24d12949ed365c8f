// Package openai decodes and validates requests of the OpenAI HTTP API, and encodes responses and
// errors.
//
// It knows neither models nor connections. Limits that depend on a model's context or vocabulary
// are checked by the caller.
//
// Invariants:
//   - Decode returns a Request within the limits below, or an *Error, which names the invalid field
//     if there is one. It never panics.
//   - Unknown fields are ignored, as OpenAI's servers do. Known fields with unsupported values are
//     refused.
//   - Responses and chunks are valid JSON for any text.
package openai
