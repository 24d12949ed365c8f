package workload

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// MooncakeBlock is the number of tokens of a hash in a Mooncake trace.
const MooncakeBlock = 512

// maxLine is the length of the longest line of a trace in bytes.
const maxLine = 1 << 24

// ReadMooncake reads a trace of Mooncake, Kimi's serving platform. The last hash of a prompt may be of
// a block that is not full.
func ReadMooncake(from io.Reader, o Options) Source {
	return func(yield func(Request, error) bool) {
		in := bufio.NewScanner(from)
		in.Buffer(nil, maxLine)
		var sorted order
		for line := 1; in.Scan(); line++ {
			if len(strings.TrimSpace(in.Text())) == 0 {
				continue
			}
			r, err := mooncakeRequest(in.Bytes(), o, line)
			if err == nil {
				err = sorted.check(o.file(), line, "timestamp", r.At)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
		if err := in.Err(); err != nil {
			yield(Request{}, fmt.Errorf("%s: %w", o.file(), err))
		}
	}
}

func mooncakeRequest(text []byte, o Options, line int) (Request, error) {
	wrong := func(key, problem string) (Request, error) {
		return Request{}, &Error{o.file(), line, key, problem,
			`write {"timestamp": 0, "input_length": 700, "output_length": 20, "hash_ids": [1, 2]}, or remove the line`}
	}
	var raw struct {
		Timestamp *float64 `json:"timestamp"` // ms
		Input     *int     `json:"input_length"`
		Output    *int     `json:"output_length"`
		Hashes    []uint64 `json:"hash_ids"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		if typed := (*json.UnmarshalTypeError)(nil); errors.As(err, &typed) {
			return wrong(typed.Field, "cannot be a "+typed.Value)
		}
		return wrong("", "not JSON: "+err.Error())
	}
	switch {
	case raw.Timestamp == nil || *raw.Timestamp < 0:
		return wrong("timestamp", "is missing or negative")
	case raw.Input == nil || *raw.Input < 0 || *raw.Input > maxTokens:
		return wrong("input_length", "is missing or not a number of tokens")
	case raw.Output == nil || *raw.Output < 0 || *raw.Output > maxTokens:
		return wrong("output_length", "is missing or not a number of tokens")
	}
	r := Request{
		At: time.Duration(*raw.Timestamp * float64(time.Millisecond)), Model: o.Model,
		Prompt: max(1, *raw.Input), Output: max(1, *raw.Output), Prefix: raw.Hashes,
	}
	if len(raw.Hashes) > 0 {
		r.PrefixBlock = MooncakeBlock
	}
	return r, nil
}

// ReadAzure reads a trace of the Azure LLM inference dataset. The first request arrives at 0.
func ReadAzure(from io.Reader, o Options) Source {
	var first time.Time
	return rows(from, o, "TIMESTAMP", []string{"ContextTokens", "GeneratedTokens"}, func(t *table) (Request, error) {
		at, err := t.time("TIMESTAMP")
		if err != nil {
			return Request{}, err
		}
		if first.IsZero() {
			first = at
		}
		return withTokens(t, Request{At: at.Sub(first), Model: o.Model}, "ContextTokens", "GeneratedTokens")
	})
}

// ReadAdapters reads a trace of requests for the adapters of one model.
func ReadAdapters(from io.Reader, o Options) Source {
	return rows(from, o, "arrival_s", []string{"adapter", "prompt_len", "output_len"},
		func(t *table) (Request, error) {
			at, err := t.number("arrival_s")
			if err != nil {
				return Request{}, err
			}
			return withTokens(t, Request{At: seconds(at), Model: o.Model, Adapter: t.text("adapter")},
				"prompt_len", "output_len")
		})
}

// ReadImages reads the trace of an image generation service with many base models (Alibaba,
// cluster-trace-v2026-GenAI). The output of a request counts denoising steps: those of one image times
// the number of images. A request without a model, which the service refused, is left out.
func ReadImages(from io.Reader, o Options) Source {
	const model, prompt, steps, images = "checkpoint_model_version_id", "prompt_length", "num_inference_steps",
		"num_images_per_prompt"
	var first time.Time
	all := rows(from, o, "gmt_create", []string{model, prompt, steps, images}, func(t *table) (Request, error) {
		at, err := t.time("gmt_create")
		if err != nil {
			return Request{}, err
		}
		if first.IsZero() {
			first = at
		}
		r := Request{At: at.Sub(first), Model: t.text(model), Prompt: 1}
		if r.Model == "" {
			return r, nil
		}
		if t.text(prompt) != "" {
			if r.Prompt, err = t.tokens(prompt); err != nil {
				return Request{}, err
			}
		}
		one, err := t.tokens(steps)
		if err != nil {
			return Request{}, err
		}
		n, err := t.tokens(images)
		r.Output = one * n
		return r, err
	})
	return each(all, func(r Request) (Request, bool) { return r, r.Model != "" })
}

// withTokens completes a request with its lengths.
func withTokens(t *table, r Request, prompt, output string) (_ Request, err error) {
	if r.Prompt, err = t.tokens(prompt); err == nil {
		r.Output, err = t.tokens(output)
	}
	return r, err
}
