package dst

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// request is a request of the OpenAI API and what its response must be.
type request struct {
	id      string
	path    string
	model   string
	key     clientKey
	headers map[string]string
	body    []byte

	chat, stream, includeUsage, logprobs bool

	timeout time.Duration // 0: longer than any run
	status  int           // of the error that the request must get, unless another one comes first; 0: none
	prompt  int           // tokens of all prompts
	most    int           // most tokens that are computed: the prompt and the output of each choice
	expect  []expectation // by choice
	want    []wanted      // likewise
}

// clientKey is an API key of keyFile. The limits are those in the file.
type clientKey struct {
	name, secret string
	requests     int // limit of requests in flight; 0: none
	tokens       int // limit of tokens in flight, or per minute; 0: none
	limited      bool
	standard     bool // must not have a higher class than standard
}

var clientKeys = []clientKey{
	{name: "admin", secret: "dst-admin-000000000"},
	{name: "free", secret: "dst-free-0000000000"},
	{name: "free", secret: "dst-free-0000000000"},
	{name: "low", secret: "dst-low-00000000000", standard: true},
	{name: "few", secret: "dst-few-00000000000", limited: true, requests: 2},
	{name: "small", secret: "dst-small-000000000", limited: true, tokens: 400},
	{name: "minute", secret: "dst-minute-00000000", limited: true, tokens: 1200},
}

var words = strings.Fields(`In the beginning God created heaven and earth. And without form void; darkness was upon
face of deep: moved waters said, Let there be light saw that it good divided from called Day, Night evening morning
were first day firmament midst waters under gathered together unto one place dry land appear so`)

// requests generates the requests of a run.
type requests struct {
	rng     *rand.Rand
	models  []model
	prompts [][]string // earlier prompts, in words
}

// next returns the next request.
func (g *requests) next(id string) *request {
	r := &request{id: id, key: clientKeys[g.rng.IntN(len(clientKeys))], model: g.models[g.rng.IntN(len(g.models))].name,
		headers: make(map[string]string)}
	body := map[string]any{"model": r.model}
	r.stream, r.chat = g.rng.IntN(3) > 0, g.rng.IntN(3) == 0
	r.path = "/v1/completions"
	if body["stream"] = r.stream; r.stream && g.rng.IntN(2) == 0 {
		r.includeUsage = true
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	prompts, texts := g.promptsOf(r, body)
	choices := 1
	if g.rng.IntN(4) == 0 {
		choices = 2 + g.rng.IntN(2)
		body["n"] = choices
	}
	e := g.sampling(r, body)
	e.revision = r.model
	first := e
	first.prompt = prompts[0]
	g.stop(&e, first.want(), body)
	for i, p := range prompts {
		r.prompt += len(p)
		for n := range choices {
			one := e
			one.prompt, one.sampling.Seed = p, e.sampling.Seed+uint64(n)
			if body["echo"] == true {
				one.echoed = texts[i]
			}
			r.expect, r.want = append(r.expect, one), append(r.want, one.want())
			r.most += len(p) + e.limits.most
		}
	}
	g.priority(r, body)
	if g.rng.IntN(6) == 0 {
		r.timeout = time.Duration(50+g.rng.IntN(1500)) * time.Millisecond
		body["timeout"] = r.timeout.Seconds()
	}
	if used := r.prompt + len(r.want)*e.limits.most; r.status == 0 && r.key.tokens > 0 && used > r.key.tokens {
		r.status = http.StatusBadRequest
	}
	g.invalid(r, body)
	var err error
	if r.body, err = json.Marshal(body); err != nil {
		panic(err)
	}
	return r
}

// promptsOf adds prompts to a request, as text or as tokens. It returns their tokens and texts.
func (g *requests) promptsOf(r *request, body map[string]any) (tokens [][]uint32, texts []string) {
	t := textOf()
	if r.chat {
		r.path = "/v1/chat/completions"
		all := g.words()
		var turns []map[string]string
		rendered := ""
		for role := range 1 + g.rng.IntN(3) {
			cut := g.rng.IntN(len(all) + 1)
			content := strings.Join(all[:cut], " ")
			all = all[cut:]
			if len(all) == 0 {
				all = []string{"Amen"}
			}
			turns = append(turns, map[string]string{"role": []string{"user", "assistant"}[role%2], "content": content})
			rendered += content + "\n"
		}
		body["messages"] = turns
		return [][]uint32{t.Encode(rendered, false)}, nil
	}
	if g.rng.IntN(4) == 0 {
		var ids []uint32
		for range 1 + g.rng.IntN(60) {
			ids = append(ids, uint32(firstText+g.rng.IntN(vocab-firstText)))
		}
		body["prompt"] = ids
		tokens, texts = [][]uint32{ids}, []string{t.Decode(ids, true)}
	} else {
		for range 1 + g.rng.IntN(10)/9 {
			text := strings.Join(g.words(), " ")
			tokens, texts = append(tokens, t.Encode(text, true)), append(texts, text)
		}
		if body["prompt"] = texts; len(texts) == 1 {
			body["prompt"] = texts[0]
		}
	}
	if g.rng.IntN(8) == 0 {
		body["echo"] = true
	}
	return tokens, texts
}

// words returns a prompt, which often starts like an earlier one.
func (g *requests) words() (all []string) {
	if len(g.prompts) > 0 && g.rng.IntN(3) > 0 {
		old := g.prompts[g.rng.IntN(len(g.prompts))]
		all = slices.Clone(old[:g.rng.IntN(len(old)+1)])
	}
	for range 1 + g.rng.IntN(30) {
		all = append(all, words[g.rng.IntN(len(words))])
	}
	all = all[:min(len(all), 80)]
	g.prompts = append(g.prompts, all)
	return all
}

// sampling adds sampling parameters to a request.
func (g *requests) sampling(r *request, body map[string]any) (e expectation) {
	e.limits = limits{most: 1 + g.rng.IntN(50)}
	body["max_tokens"] = e.limits.most
	body["temperature"] = 0
	if g.rng.IntN(2) == 0 {
		e.sampling.Temperature, e.sampling.Seed = 1, uint64(g.rng.IntN(1<<30))
		body["temperature"], body["seed"] = 1, e.sampling.Seed
	}
	if g.rng.IntN(4) == 0 {
		body["ignore_eos"] = true
	} else {
		e.limits.stops = []uint32{eos}
	}
	if g.rng.IntN(4) == 0 {
		e.limits.least = g.rng.IntN(e.limits.most)
		body["min_tokens"] = e.limits.least
	}
	if g.rng.IntN(4) == 0 && body["echo"] == nil {
		r.logprobs, e.sampling.Logprobs, e.sampling.TopLogprobs = true, true, g.rng.IntN(3)
		if body["logprobs"] = any(e.sampling.TopLogprobs); r.chat {
			body["logprobs"], body["top_logprobs"] = true, e.sampling.TopLogprobs
		}
	}
	return e
}

// stop adds a stop string or a stop token to some requests, taken from the output without it.
func (g *requests) stop(e *expectation, output wanted, body map[string]any) {
	switch g.rng.IntN(6) {
	case 0:
		at := g.rng.IntN(len(output.text) + 1)
		stop := strings.ToValidUTF8(output.text[at:min(len(output.text), at+1+g.rng.IntN(4))], "")
		if stop = strings.ReplaceAll(stop, "\ufffd", ""); stop == "" {
			return
		}
		e.stop, body["stop"] = stop, []string{stop}
		if g.rng.IntN(3) == 0 {
			e.includeStop, body["include_stop_str_in_output"] = true, true
		}
	case 1:
		if len(output.tokens) > 0 {
			token := output.tokens[g.rng.IntN(len(output.tokens))].ID
			e.limits.stops, body["stop_token_ids"] = append(e.limits.stops, token), []uint32{token}
		}
	}
}

// priority gives some requests a class, in the body or in a header.
func (g *requests) priority(r *request, body map[string]any) {
	class := []string{"", "batch", "standard", "interactive"}[g.rng.IntN(4)]
	if class == "" {
		return
	}
	if g.rng.IntN(2) == 0 {
		body["priority"] = class
	} else {
		r.headers["X-Troupe-Priority"] = class
	}
	if class == "interactive" && r.key.standard {
		r.status = http.StatusForbidden
	}
}

// invalid makes some requests invalid.
func (g *requests) invalid(r *request, body map[string]any) {
	if g.rng.IntN(12) > 0 || r.status != 0 {
		return
	}
	switch g.rng.IntN(4) {
	case 0:
		body["model"], r.status = "none", http.StatusNotFound
	case 1:
		r.key.secret, r.status = "", http.StatusUnauthorized
	case 2:
		body["max_tokens"], r.status = 4096, http.StatusBadRequest
	case 3:
		body["temperature"], r.status = 7, http.StatusBadRequest
	}
}
