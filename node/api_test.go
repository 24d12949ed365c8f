package node_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"

	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// waitFor polls until a condition holds, for a minute at most.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	waitWithin(t, time.Minute, what, condition)
}

func waitWithin(t *testing.T, within time.Duration, what string, condition func() bool) {
	t.Helper()
	for began := time.Now(); !condition(); <-time.After(testkit.PollInterval(time.Since(began))) {
		if time.Since(began) > within {
			t.Fatalf("waited %s for: %s", within, what)
		}
	}
}

// replica returns the status of a deployment's first replica.
func replica(t *testing.T, n *node.Node, name string) *messages.ReplicaStatus {
	t.Helper()
	d, err := n.Backend().Deployment(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.GetReplicas()) == 0 {
		return nil
	}
	return d.GetReplicas()[0]
}

func complete(t *testing.T, n *node.Node, fields map[string]any) completion {
	t.Helper()
	status, body := post(t, n, "/v1/completions", fields)
	var c completion
	if err := json.Unmarshal(body, &c); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	return c
}

func TestRepeatedPromptUsesPrefixCache(t *testing.T) {
	n := start(t, nil)
	ask := map[string]any{
		"model":       "kjv",
		"prompt":      strings.Repeat("And God said, Let there be light. ", 8),
		"max_tokens":  24,
		"temperature": 0.7,
		"seed":        5,
	}
	first, second := complete(t, n, ask), complete(t, n, ask)
	if first.Usage.Details.Cached != 0 || second.Usage.Details.Cached < 16 ||
		second.Usage.Details.Cached >= second.Usage.PromptTokens {
		t.Errorf("cached %d, then %d of %d prompt tokens", first.Usage.Details.Cached, second.Usage.Details.Cached,
			second.Usage.PromptTokens)
	}
	if first.Choices[0].Text != second.Choices[0].Text {
		t.Errorf("%q, then %q", first.Choices[0].Text, second.Choices[0].Text)
	}
}

func TestOpenAIClient(t *testing.T) {
	n := start(t, nil)
	cfg := openai.DefaultConfig("none")
	cfg.BaseURL = "http://" + n.HTTPAddr() + "/v1"
	client := openai.NewClientWithConfig(cfg)
	models, err := client.ListModels(t.Context())
	if err != nil || len(models.Models) != 1 || models.Models[0].ID != "kjv" {
		t.Fatalf("%+v, %v", models, err)
	}
	g := goldens(t)[0]
	seed := 7
	stream, err := client.CreateCompletionStream(t.Context(), openai.CompletionRequest{
		Model: "kjv", Prompt: g.Prompt, MaxTokens: len(g.OutputIDs), Temperature: 0, Seed: &seed, Stream: true,
		StreamOptions: &openai.StreamOptions{IncludeUsage: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	var usage *openai.Usage
	for {
		chunk, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range chunk.Choices {
			text.WriteString(c.Text)
		}
		if chunk.Usage != nil {
			usage = chunk.Usage
		}
	}
	// go-openai omits a temperature of 0, so the text is sampled. Other tests compare goldens.
	if text.Len() == 0 || usage == nil || usage.PromptTokens != len(g.PromptIDs) || usage.CompletionTokens == 0 {
		t.Errorf("streamed %q, usage %+v", text.String(), usage)
	}
	chat, err := client.CreateChatCompletion(t.Context(), openai.ChatCompletionRequest{
		Model:               "kjv",
		Messages:            []openai.ChatCompletionMessage{{Role: "user", Content: "In the beginning"}},
		MaxCompletionTokens: 8, N: 2,
		LogProbs: true, TopLogProbs: 2, Seed: &seed,
	})
	if err != nil || len(chat.Choices) != 2 || chat.Choices[0].Message.Role != "assistant" {
		t.Fatalf("%+v, %v", chat, err)
	}
	if lp := chat.Choices[0].LogProbs; lp == nil || len(lp.Content) != 8 || len(lp.Content[0].TopLogProbs) != 2 ||
		lp.Content[0].LogProb > 0 {
		t.Errorf("log-probabilities %+v", lp)
	}
	if chat.Choices[0].Message.Content == chat.Choices[1].Message.Content {
		t.Error("two choices are the same")
	}
	_, err = client.CreateChatCompletion(t.Context(),
		openai.ChatCompletionRequest{Model: "none", Messages: []openai.ChatCompletionMessage{{Role: "user"}}})
	if e, ok := err.(*openai.APIError); !ok || e.HTTPStatusCode != http.StatusNotFound || e.Code != "model_not_found" {
		t.Errorf("unknown model: %v", err)
	}
}

func TestPromptForms(t *testing.T) {
	n := start(t, nil)
	g := goldens(t)[0]
	for name, prompt := range map[string]any{"text": g.Prompt, "tokens": g.PromptIDs} {
		for _, many := range []bool{false, true} {
			if many {
				prompt = []any{prompt, prompt}
			}
			c := complete(t, n,
				map[string]any{"model": "kjv", "prompt": prompt, "max_tokens": 20, "temperature": 0, "n": 2})
			if want := map[bool]int{false: 2, true: 4}[many]; len(c.Choices) != want {
				t.Fatalf("%s: %d choices, not %d", name, len(c.Choices), want)
			}
			for _, choice := range c.Choices {
				if !strings.HasPrefix(g.Text, choice.Text) || choice.Text == "" || choice.FinishReason != "length" {
					t.Errorf("%s: %+v", name, choice)
				}
			}
		}
	}
	whole := complete(t, n, map[string]any{"model": "kjv", "prompt": g.Prompt, "max_tokens": 20, "temperature": 0})
	stop := strings.Fields(whole.Choices[0].Text)[3]
	c := complete(t, n, map[string]any{
		"model":       "kjv",
		"prompt":      g.Prompt,
		"max_tokens":  20,
		"temperature": 0,
		"stop":        []string{stop},
		"echo":        true,
	})
	before, _, _ := strings.Cut(whole.Choices[0].Text, stop)
	if c.Choices[0].Text != g.Prompt+before || c.Choices[0].FinishReason != "stop" {
		t.Errorf("stop %q, echo: %+v", stop, c.Choices[0])
	}
}

// TestBadRequests checks that each bad request gets a typed error that names the field, and that
// the node keeps serving.
func TestBadRequests(t *testing.T) {
	n := start(t, nil)
	for name, tc := range map[string]struct {
		path, body string
		status     int
		want       string
	}{
		"malformed JSON": {"/v1/completions", `{"model": `, 400, "not valid JSON"},
		"invalid UTF-8":  {"/v1/completions", "{\"model\":\"kjv\",\"prompt\":\"\xff\"}", 400, "UTF-8"},
		"wrong type": {"/v1/completions", `{"model":"kjv","prompt":"a","max_tokens":"many"}`, 400,
			"max_tokens"},
		"unknown model": {"/v1/completions", `{"model":"gpt-5","prompt":"a"}`, 404,
			`model "gpt-5" is not deployed; there are: kjv`},
		"model with a path": {"/v1/completions", `{"model":"../gateway","prompt":"a"}`, 404, "is not deployed"},
		"no model":          {"/v1/completions", `{"prompt":"a"}`, 400, "model is missing"},
		"no prompt":         {"/v1/completions", `{"model":"kjv"}`, 400, "prompt is missing"},
		"prompt too long": {"/v1/completions",
			`{"model":"kjv","prompt":"` + strings.Repeat("In the beginning ", 400) + `"}`, 400,
			"context is 1024 tokens"},
		"max_tokens too big": {"/v1/completions", `{"model":"kjv","prompt":"a","max_tokens":100000}`, 400,
			"context is 1024 tokens"},
		"negative": {"/v1/completions", `{"model":"kjv","prompt":"a","max_tokens":-1}`, 400,
			"max_tokens is -1"},
		"temperature": {"/v1/completions", `{"model":"kjv","prompt":"a","temperature":-1}`, 400,
			"temperature is -1"},
		"huge n":             {"/v1/completions", `{"model":"kjv","prompt":"a","n":100000}`, 400, "n is 100000"},
		"token out of range": {"/v1/completions", `{"model":"kjv","prompt":[5000]}`, 400, "token 5000"},
		"suffix": {"/v1/completions", `{"model":"kjv","prompt":"a","suffix":"b"}`, 400,
			"suffix is not supported"},
		"no messages": {"/v1/chat/completions", `{"model":"kjv"}`, 400, "messages is missing"},
		"image": {"/v1/chat/completions",
			`{"model":"kjv","messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400,
			`"image_url" is not supported`},
		"embeddings":   {"/v1/embeddings", `{"model":"kjv","input":"a"}`, 400, "embeddings are not supported"},
		"unknown path": {"/v1/nothing", `{}`, 404, "no route for"},
		"wrong method": {"/v1/models", `{}`, 405, "accepts GET"},
		"deadline": {"/v1/completions",
			`{"model":"kjv","prompt":"a","max_tokens":1000,"ignore_eos":true,"timeout":0.05}`, 504, "time is up"},
	} {
		res, err := http.Post("http://"+n.HTTPAddr()+tc.path, "application/json", strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		var e struct {
			Error struct {
				Message, Type string
				Param, Code   *string
			}
		}
		if err := json.Unmarshal(body, &e); err != nil || res.StatusCode != tc.status ||
			!strings.Contains(e.Error.Message, tc.want) ||
			e.Error.Type == "" {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
	}
	complete(t, n, map[string]any{"model": "kjv", "prompt": "a", "max_tokens": 1})
}

func TestDisconnectFreesBlocks(t *testing.T) {
	const steps = 5
	n, g := startGated(t, steps)
	ctx, leave := context.WithCancel(t.Context())
	body := `{"model":"kjv","prompt":"In the beginning","max_tokens":1000,"ignore_eos":true,"stream":true}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.HTTPAddr()+"/v1/completions",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
		t.Fatalf("%q, %v", line, err)
	}
	g.await(t)
	leave()
	waitFor(t, "the session to end", func() bool {
		return !strings.Contains(fmt.Sprint(n.Backend().Tree()), `kind:"session"`)
	})
	g.open()
	waitFor(t, "the sequence to end", func() bool {
		r := replica(t, n, "kjv")
		return r.GetTokensOut() > 0 && r.GetRunning() == 0 && r.GetKvBlocksFree() == r.GetKvBlocks()
	})
	// the step in flight, and one planned before the cancellation
	if out := replica(t, n, "kjv").GetTokensOut(); out > steps+2 {
		t.Errorf("%d tokens were generated, most of them after the client disconnected", out)
	}
}

// withLimits limits the deployment's sequences, queue and KV blocks.
func withLimits(sequences, waiting, blocks uint32) func(*node.Config) {
	return func(c *node.Config) {
		d := c.Deployments[0]
		d.MaxSequences, d.MaxWaiting, d.KvBlocks = new(sequences), new(waiting), new(blocks)
	}
}

func TestQueueFullIs429(t *testing.T) {
	n, g := startGated(t, 0, withLimits(1, 1, 0))
	long := map[string]any{"model": "kjv", "prompt": "a", "max_tokens": 10, "ignore_eos": true}
	var wait sync.WaitGroup
	defer wait.Wait()
	defer g.open()
	for i := range 2 {
		wait.Go(func() { post(t, n, "/v1/completions", long) })
		waitFor(t, "the request to arrive", func() bool {
			r := replica(t, n, "kjv")
			return int(r.GetRunning()+r.GetWaiting()) == i+1
		})
	}
	b, _ := json.Marshal(long)
	res, err := http.Post("http://"+n.HTTPAddr()+"/v1/completions", "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != "1" {
		body, _ := io.ReadAll(res.Body)
		t.Errorf("%d, Retry-After %q: %s", res.StatusCode, res.Header.Get("Retry-After"), body)
	}
}

// TestHigherPriorityPreempts checks that an interactive request preempts a batch request, which
// then continues with the same tokens.
func TestHigherPriorityPreempts(t *testing.T) {
	low := map[string]any{
		"model":      "kjv",
		"prompt":     "In the beginning",
		"max_tokens": 500,
		"ignore_eos": true,
		"seed":       1,
		"priority":   "batch",
	}
	want := complete(t, start(t, withLight(t)), low).Choices[0].Text
	n, g := startGated(t, 20, withLight(t, withLimits(1, 10, 0)))
	var order []string
	var mu sync.Mutex
	done := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, name)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		status, body := post(t, n, "/v1/completions", low)
		var c completion
		if err := json.Unmarshal(body, &c); err != nil || status != 200 || c.Choices[0].Text != want {
			t.Errorf("the batch request got %d %.100s", status, body)
		}
		done("batch")
	})
	g.await(t)
	wait.Go(func() {
		if status, body := post(t, n, "/v1/completions",
			map[string]any{"model": "kjv", "prompt": "And", "max_tokens": 4,
				"priority": "interactive"}); status != 200 {
			t.Errorf("the interactive request got %d %.100s", status, body)
		}
		done("interactive")
	})
	waitFor(t, "the interactive request to wait", func() bool { return replica(t, n, "kjv").GetWaiting() == 1 })
	g.open()
	wait.Wait()
	if fmt.Sprint(order) != "[interactive batch]" {
		t.Errorf("order %v", order)
	}
	waitFor(t, "the preemption to be reported", func() bool { return replica(t, n, "kjv").GetPreemptions() > 0 })
}

// TestPreemptionChangesNoToken checks that sequences that preempt each other for lack of KV blocks
// get the same tokens as alone.
func TestPreemptionChangesNoToken(t *testing.T) {
	want := undisturbedStreams(t)
	n := start(t, withLight(t, withLimits(32, 64, 20)))
	got := completeStreams(t, n)
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("stream %d: got %q, want %q", i, got[i], want[i])
		}
	}
	waitFor(t, "preemptions to be reported and all 20 blocks to be free", func() bool {
		r := replica(t, n, "kjv")
		return r.GetRunning() == 0 && r.GetPreemptions() > 0 && r.GetKvBlocksFree() == 20
	})
}

func TestModelTooLargeFails(t *testing.T) {
	n := start(t, nil)
	if _, err := n.PutDeployment(t.Context(), &messages.DeploymentSpec{
		Name: "huge", Path: testkit.Model(), Replicas: new(uint32(1)), MaxSequences: new(uint32(4)),
		StepTokens:  new(uint32(64)),
		BlockTokens: new(uint32(16)), KvBlocks: new(uint32(1 << 24)),
	}, 0); err != nil {
		t.Fatal(err)
	}
	var d *messages.DeploymentStatus
	waitFor(t, "the deployment to fail", func() bool {
		d, _ = n.Backend().Deployment(t.Context(), "huge")
		return d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_FAILED
	})
	least := uint64(1<<24) * 48 << 10 // 48 KiB each
	memory := d.GetFailure().GetMemory()
	if !strings.Contains(d.GetDetail(), "2 of 2 short of memory by 767.8 GiB or more") || memory.GetBytes() <= least ||
		memory.GetTotal() != 256<<20 {
		t.Errorf("detail %q, %v", d.GetDetail(), memory)
	}
	if status, body := post(t, n, "/v1/completions", map[string]any{"model": "huge", "prompt": "a"}); status != 503 ||
		!strings.Contains(string(body), "short of memory") ||
		!strings.Contains(string(body), fmt.Sprintf(
			`"memory":{"bytes":%d,"used":%d,"total":%d,"reserve":%d,"evictable":%d}`, memory.GetBytes(),
			memory.GetUsed(), memory.GetTotal(), memory.GetReserve(), memory.GetEvictable())) {
		t.Errorf("%d %s", status, body)
	}
	complete(t, n, map[string]any{"model": "kjv", "prompt": "a", "max_tokens": 1})
	if err := n.Backend().DeleteDeployment(t.Context(), "huge", false); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the deployment to be deleted",
		func() bool { _, err := n.Backend().Deployment(t.Context(), "huge"); return err != nil })
}
