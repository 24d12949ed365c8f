package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"troupe/core/sample"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/node"
)

const (
	model   = "models/kjv-2m"
	streams = 16
	tokens  = 64
)

// startNode starts a node with one software GPU that serves the model.
func startNode(change func(*messages.DeploymentSpec)) (*node.Node, func(), error) {
	return nodeWith(func(c *node.Config) {
		if change != nil {
			change(c.Deployments[0])
		}
	})
}

// nodeWith starts such a node with a changed configuration.
func nodeWith(change func(*node.Config)) (*node.Node, func(), error) {
	dir, err := os.MkdirTemp("", "troupe-bench")
	if err != nil {
		return nil, nil, err
	}
	cfg := node.Config{
		Name: "bench", DataDir: dir, HTTP: "127.0.0.1:0", NATSListen: "127.0.0.1:0", Version: "0.0.0",
		Log:         zerolog.Nop(),
		Devices:     []host.Config{{MemoryBytes: 4 << 30}},
		Deployments: []*messages.DeploymentSpec{{Name: "kjv", Path: model}},
	}
	change(&cfg)
	n, err := node.Start(context.Background(), cfg)
	if err != nil {
		return nil, nil, err
	}
	stop := func() {
		_ = n.Stop(context.Background()) // the process exits soon
		_ = os.RemoveAll(dir)
	}
	if err := n.Ready(context.Background()); err != nil {
		stop()
		return nil, nil, err
	}
	return n, stop, nil
}

// openEngine opens the engine without a node.
func openEngine() (engine.Engine, error) {
	d, err := host.Open(host.Config{MemoryBytes: 4 << 30})
	if err != nil {
		return nil, err
	}
	h := residency.NewStore(d, llama.Loader{})
	spec := engine.LoadSpec{
		Lease: "bench", Path: model, BlockTokens: 16, KVBlocks: 2048,
		Limits: engine.Limits{StepTokens: 512, MaxSequences: 64},
	}
	if _, err := h.Load(context.Background(), spec); err != nil {
		return nil, err
	}
	return h.Open("bench")
}

// sequence returns a sequence's part of a step, with its own blocks.
func sequence(i, position int, toks ...uint32) engine.Sequence {
	s := engine.Sequence{Tokens: toks, Position: position, Sample: true, Sampling: sample.Params{}}
	for b := range 64 {
		s.Blocks = append(s.Blocks, int32((i*64+b)%2048))
	}
	return s
}

func post(url, body string) error {
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d %s", res.StatusCode, text)
	}
	return err
}

func gatewayPath() (section, error) {
	s := section{
		title: "Gateway and actors",
		how: "A completion of one token over HTTP, for a prompt whose KV blocks are cached except for the " +
			"last token, compared to the same step called directly on the engine, alternating. Then 16 " +
			"streams of 64 tokens, compared to the engine stepping a batch of 16. A stream's client runs " +
			"in the same process on the same cores.",
	}
	n, stop, err := startNode(nil)
	if err != nil {
		return s, err
	}
	defer stop()
	e, err := openEngine()
	if err != nil {
		return s, err
	}
	defer e.Close()
	url := "http://" + n.HTTPAddr() + "/v1/completions"
	over, bare := oneToken(url, e)
	if err := errors.Join(over(), fill(e, prompt())); err != nil {
		return s, err
	}
	with, without, _, err := paired(1000, over, bare)
	if err != nil {
		return s, err
	}
	s.rows = append(
		s.rows,
		row{
			"added latency of a request, median",
			fmt.Sprintf("%d µs (%d µs over HTTP, %d µs direct)", (with - without).Microseconds(),
				with.Microseconds(), without.Microseconds()),
			"under 150 µs",
			yesNo(with-without < 150*time.Microsecond),
		},
	)
	floor, alone, err := bareServer(e)
	if err != nil {
		return s, err
	}
	s.rows = append(s.rows, row{"for scale: latency added by an HTTP server that only runs that " +
		"step", fmt.Sprintf("%d µs (%d µs through it, %d µs without)",
		(floor - alone).Microseconds(), floor.Microseconds(), alone.Microseconds()), "", ""})
	viaProxy, straight, err := proxy()
	if err != nil {
		return s, err
	}
	s.rows = append(s.rows, row{"for scale: latency added by httputil.ReverseProxy before a trivial " +
		"server", fmt.Sprintf("%d µs (%d µs through it, %d µs without)",
		(viaProxy - straight).Microseconds(), viaProxy.Microseconds(), straight.Microseconds()), "", ""})
	all := func() error { return streamTogether(url) }
	batch := func() error { return stepTogether(e) }
	if err := all(); err != nil { // warm up
		return s, err
	}
	with, without, ratio, err := paired(9, all, batch)
	if err != nil {
		return s, err
	}
	s.rows = append(
		s.rows,
		row{
			"time per token at 16 streams, over the engine alone",
			fmt.Sprintf("%.3f (%.0f µs against %.0f µs per step)", ratio,
				float64(with.Microseconds())/tokens, float64(without.Microseconds())/tokens),
			"1.05 or less",
			yesNo(ratio <= 1.05),
		},
		row{"tokens per second at 16 streams", fmt.Sprintf("%.0f", streams*tokens/with.Seconds()), "", ""},
		row{"requests of 64 tokens per second with 16 clients", fmt.Sprintf("%.0f", streams/with.Seconds()), "", ""},
	)
	return s, nil
}

// prompt returns 33 tokens. After the first request 32 of them are in KV blocks, so a step computes
// one.
func prompt() []uint32 {
	p := make([]uint32, 33)
	for i := range p {
		p[i] = uint32(3 + i)
	}
	return p
}

// oneToken returns a function that requests one token over HTTP and one that computes it on the
// engine.
func oneToken(url string, e engine.Engine) (over, bare func() error) {
	p := prompt()
	body := fmt.Sprintf(
		`{"model":"kjv","prompt":%s,"max_tokens":1,"temperature":0}`, strings.ReplaceAll(fmt.Sprint(p), " ", ","),
	)
	over = func() error { return post(url, body) }
	bare = func() error {
		_, err := e.Step(context.Background(), []engine.Sequence{sequence(0, 32, p[32])})
		return err
	}
	return over, bare
}

// fill computes a prompt's KV blocks.
func fill(e engine.Engine, prompt []uint32) error {
	_, err := e.Step(context.Background(), []engine.Sequence{sequence(0, 0, prompt...)})
	return err
}

// streamTogether runs 16 concurrent streams.
func streamTogether(url string) error {
	var wait sync.WaitGroup
	errs := make([]error, streams)
	for i := range streams {
		wait.Go(func() {
			errs[i] = post(
				url,
				fmt.Sprintf(
					`{"model":"kjv","prompt":[0,76,113,261,%d],"max_tokens":%d,"temperature":0,"ignore_eos":true,`+
						`"stream":true}`, i+10, tokens,
				),
			)
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// stepTogether generates the same tokens on the engine.
func stepTogether(e engine.Engine) error {
	batch := make([]engine.Sequence, streams)
	for i := range batch {
		batch[i] = sequence(i, 0, 0, 76, 113, 261, uint32(i+10))
	}
	for range tokens {
		out, err := e.Step(context.Background(), batch)
		if err != nil {
			return err
		}
		for i := range batch {
			batch[i] = sequence(i, batch[i].Position+len(batch[i].Tokens), out[i].ID)
		}
	}
	return nil
}

// bareServer measures a step over HTTP with nothing between the server and the engine, and the step
// alone.
func bareServer(e engine.Engine) (over, alone time.Duration, err error) {
	_, bare := oneToken("", e)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if err := bare(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, "{}")
	}))
	defer server.Close()
	through, _ := oneToken(server.URL, e)
	over, alone, _, err = paired(1000, through, bare)
	return over, alone, err
}

// proxy measures a request to a trivial server, through a reverse proxy and directly.
func proxy() (through, straight time.Duration, err error) {
	server := httptest.NewServer(
		http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); fmt.Fprint(w, "{}") },
		),
	)
	defer server.Close()
	target, err := url.Parse(server.URL)
	if err != nil {
		return 0, 0, err
	}
	front := httptest.NewServer(httputil.NewSingleHostReverseProxy(target))
	defer front.Close()
	through, straight, _, err = paired(
		400, func() error { return post(front.URL, "{}") }, func() error { return post(server.URL, "{}") },
	)
	return through, straight, err
}
