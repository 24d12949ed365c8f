package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"

	"troupe/messages"
	"troupe/testkit"
)

// Request is a completion with a reproducible answer: the seed determines all samples.
type Request struct {
	Model       string  `json:"model"` // ModelName or one of Adapters
	Prompt      string  `json:"prompt"`
	Seed        int     `json:"seed"`
	Temperature float64 `json:"temperature"`
	MaxTokens   int     `json:"max_tokens"`
	IgnoreEOS   bool    `json:"ignore_eos"`
}

// Answer is the complete result of a request.
type Answer struct {
	Text   string
	Finish string // "length" or "stop"
	Tokens int    // output tokens
}

// openings are prompts from the training data of models/kjv-2m. Some share a prefix, and thus KV
// blocks.
var openings = []string{
	"In the beginning", "And it came to pass", "The LORD is my shepherd; I shall not want.",
	"And God said, Let there be", "Blessed is the man that", "And the angel of the LORD",
	"Now these are the names of the children of Israel, which came into Egypt",
	"Now these are the names of the children of Israel, which came into the land of",
	"The words of the Preacher, the son of David", "And Jesus answered and said unto them,",
	"Hear, O Israel:", "My son, forget not my law; but let thine heart keep",
	"The book of the generation of", "And I saw a new heaven and", "Praise ye the LORD.",
	"Thus saith the LORD of hosts,",
}

// Requests returns n requests with the given maximum of tokens. The result is always the same:
// greedy and sampled requests, of which every eighth may end early.
func Requests(n, tokens int) []Request {
	all := make([]Request, n)
	for i := range all {
		all[i] = Request{
			Model: ModelName, Prompt: openings[i%len(openings)], Seed: 1 + i,
			Temperature: []float64{0.7, 0, 1, 1.3}[(i+i/len(openings))%4],
			MaxTokens:   tokens, IgnoreEOS: i%8 != 7,
		}
	}
	return all
}

// ModelName is the deployment that loads use.
const ModelName = "kjv"

// Spec returns the specification of that deployment.
func Spec(replicas int) *messages.DeploymentSpec {
	return &messages.DeploymentSpec{Name: ModelName, Path: testkit.Model(), Replicas: new(uint32(replicas))}
}

// ReferenceAnswers returns the answers of a single node with one replica and no faults.
func ReferenceAnswers(ctx context.Context, requests []Request) ([]Answer, error) {
	dir, err := os.MkdirTemp("", "troupe-undisturbed-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c, err := New(ctx, Config{Dir: dir, Nodes: 1})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := errors.Join(c.Deploy(ctx, Spec(1)), c.RegisterAdapters(ctx)); err != nil {
		return nil, err
	}
	answers := make([]Answer, len(requests))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i, r := range requests {
		group.Go(func() (err error) {
			answers[i], err = complete(ctx, c.Nodes[0], r)
			return err
		})
	}
	return answers, group.Wait()
}

// complete requests an answer without streaming.
func complete(ctx context.Context, n *Node, r Request) (Answer, error) {
	res, err := post(ctx, n, r, false)
	if err != nil {
		return Answer{}, err
	}
	defer res.Body.Close()
	var full chunk
	if err := json.NewDecoder(res.Body).Decode(&full); err != nil {
		return Answer{}, fmt.Errorf("answer to %q: %w", r.Prompt, err)
	}
	if len(full.Choices) != 1 || full.Usage == nil {
		return Answer{}, fmt.Errorf("answer to %q has %d choices and usage %v", r.Prompt, len(full.Choices), full.Usage)
	}
	return Answer{Text: full.Choices[0].Text, Finish: full.Choices[0].Finish, Tokens: full.Usage.Tokens}, nil
}

// chunk is a part of a streamed answer, or a complete answer.
type chunk struct {
	ID      string `json:"id"`
	Choices []struct {
		Text   string `json:"text"`
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Tokens int `json:"completion_tokens"`
	} `json:"usage"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Memory  *struct {
			Bytes uint64 `json:"bytes"`
		} `json:"memory"`
	} `json:"error"`
}

// refusalCode returns the code of the error of a chunk, NoMemory, or "" if there is none.
func (c chunk) refusalCode() string {
	switch {
	case c.Error == nil:
		return ""
	case c.Error.Memory != nil && c.Error.Memory.Bytes > 0:
		return NoMemory
	}
	return c.Error.Code
}

// NoMemory stands for a refusal without a code that has the sizes of what is missing.
const NoMemory = "no memory"

// gateway is a destination of requests: a node, or a load balancer in front of several nodes.
type gateway interface {
	URL(path string) string
	HTTP() *http.Client
}

// post sends a request to a gateway.
func post(ctx context.Context, n gateway, r Request, stream bool) (*http.Response, error) {
	type usage struct {
		IncludeUsage bool `json:"include_usage"`
	}
	body := struct {
		Request
		Stream  bool   `json:"stream"`
		Options *usage `json:"stream_options,omitempty"`
	}{Request: r, Stream: stream}
	if stream {
		body.Options = &usage{true}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL("/v1/completions"),
		strings.NewReader(string(text)))
	if err != nil {
		return nil, err
	}
	res, err := n.HTTP().Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body) // report as much of the body as was read
		var refusal chunk
		_ = json.Unmarshal(text, &refusal) // another body has no code
		return nil, &statusError{res.StatusCode, refusal.refusalCode(), string(text)}
	}
	return res, nil
}

// statusError is a response with a status other than 200.
type statusError struct {
	status int
	code   string // of the error in the body, or ""
	body   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body) }
