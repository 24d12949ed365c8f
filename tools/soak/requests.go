package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"troupe/testkit/cluster"
)

const completions = "/v1/completions"

// requests are the requests of clients, equally frequent.
var requests = []struct {
	kind string
	send func(context.Context, *client) error
}{
	{"stream", func(ctx context.Context, c *client) error { return c.stream(ctx, cluster.ModelName, -1) }},
	{"stream with an adapter", func(ctx context.Context, c *client) error {
		return c.stream(ctx, cluster.Adapters[c.random.IntN(len(cluster.Adapters))], -1)
	}},
	{"stream cut by the client", func(ctx context.Context, c *client) error {
		return c.stream(ctx, cluster.ModelName, c.random.IntN(20))
	}},
	{"completion", func(ctx context.Context, c *client) error {
		return c.expect(ctx, completions, `{"model":"`+cluster.ModelName+
			`","prompt":["In the beginning","And"],"n":2}`, http.StatusOK)
	}},
	{"chat", func(ctx context.Context, c *client) error {
		return c.expect(ctx, "/v1/chat/completions", `{"model":"`+cluster.ModelName+
			`","messages":[{"role":"user","content":"Who made the light?"}],"max_tokens":16}`, http.StatusOK)
	}},
	{"over NATS", func(ctx context.Context, c *client) error {
		return c.infer(ctx, `{"prompt":"In the beginning","max_tokens":32}`, false)
	}},
	{"error: over NATS", func(ctx context.Context, c *client) error { return c.infer(ctx, `{"prompt":7}`, true) }},
	{"error: no JSON", func(ctx context.Context, c *client) error {
		return c.expect(ctx, completions, `{"model":`, http.StatusBadRequest)
	}},
	{"error: unknown model", func(ctx context.Context, c *client) error {
		return c.expect(
			ctx, completions, fmt.Sprintf(`{"model":"m%d","prompt":"a"}`, c.random.Uint32()), http.StatusNotFound,
		)
	}},
	{"error: prompt too long", func(ctx context.Context, c *client) error {
		return c.expect(
			ctx,
			completions,
			`{"model":"`+cluster.ModelName+`","prompt":"`+strings.Repeat("light ", 4000)+`"}`,
			http.StatusBadRequest,
		)
	}},
	{"error: unsupported parameter", func(ctx context.Context, c *client) error {
		return c.expect(ctx, completions, `{"model":"`+cluster.ModelName+`","prompt":"a","use_beam_search":true}`,
			http.StatusBadRequest)
	}},
	{"error: no route", func(ctx context.Context, c *client) error {
		return c.expect(ctx, fmt.Sprintf("/v1/nothing%d", c.random.Uint32()), `{}`, http.StatusNotFound)
	}},
}

// client is a client program that keeps its connections.
type client struct {
	*mix
	random *rand.Rand
	web    *http.Client
}

func newClient(m *mix, random *rand.Rand) *client {
	return &client{mix: m, random: random, web: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2}}}
}

func (c *client) close() { c.web.CloseIdleConnections() }

func (c *client) anyNode() *cluster.Node { return c.Nodes[c.random.IntN(len(c.Nodes))] }

func (c *client) post(ctx context.Context, n *cluster.Node, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL(path), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.web.Do(req)
}

// expect sends a request to a random node and checks the status of the answer.
func (c *client) expect(ctx context.Context, path, body string, status int) error {
	return c.expectFrom(ctx, c.anyNode(), path, body, status)
}

func (c *client) expectFrom(ctx context.Context, n *cluster.Node, path, body string, status int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	res, err := c.post(ctx, n, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != status {
		err = fmt.Errorf("status %s, want %d: %.200s", res.Status, status, text)
	}
	return err
}

// stream reads a stream to its end, or disconnects after the given number of chunks.
func (c *client) stream(ctx context.Context, model string, chunks int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel() // disconnects from a stream that continues
	body := fmt.Sprintf(`{"model":%q,"prompt":"%d. In the beginning","max_tokens":64,"ignore_eos":true,"stream":true}`,
		model, c.random.IntN(1000))
	res, err := c.post(ctx, c.anyNode(), completions, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body) // best effort, for the error text
		return fmt.Errorf("%s: %.200s", res.Status, text)
	}
	last := []byte(nil)
	for lines := bufio.NewScanner(res.Body); ; {
		if chunks == 0 {
			return nil
		}
		if !lines.Scan() {
			if !bytes.Equal(last, []byte("data: [DONE]")) {
				return fmt.Errorf("the stream ended with %q: %w", last, lines.Err())
			}
			return nil
		}
		if len(lines.Bytes()) > 0 {
			last, chunks = append(last[:0], lines.Bytes()...), chunks-1
		}
	}
}

// infer sends a request over NATS and reads the answer to its end.
func (c *client) infer(ctx context.Context, body string, fails bool) error {
	conn, err := c.NATS()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	inbox := conn.NewInbox()
	answers, err := conn.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = answers.Unsubscribe() }() // the connection may be closed
	if err := conn.PublishRequest("troupe.v1.infer."+cluster.ModelName, inbox, []byte(body)); err != nil {
		return err
	}
	failed := ""
	for {
		msg, err := answers.NextMsgWithContext(ctx)
		switch {
		case err != nil:
			return err
		case len(msg.Data) > 0:
			failed += msg.Header.Get(micro.ErrorHeader)
		case msg.Header.Get("Status") != "":
			return nats.ErrNoResponders
		case (failed != "") != fails:
			return fmt.Errorf("error %q", failed)
		default:
			return nil
		}
	}
}
