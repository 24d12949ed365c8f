package identity_test

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"troupe/messages"
	"troupe/modelfile"
	"troupe/modelfile/tokenizer"
	"troupe/testkit"
	"troupe/testkit/cluster"
	"troupe/testkit/models"
	"troupe/testkit/reference"
)

// prompts are continued by each model.
var prompts = []string{
	"In the beginning", "The LORD is my shepherd; I shall not want.", "And it came to pass", "Praise ye the LORD.",
}

// certain is the least margin between the logits of the two most likely tokens of a greedy step
// that the test relies on. The engine computes in float32, the reference in float64.
const certain = 1e-3

// The time of requests: far more than a model should have to wait for its turn, and about as much.
const (
	patience = 2 * time.Minute
	little   = 2 * time.Second
)

// model is a deployment with its own folder.
type model struct{ name, path string }

// generate writes distinct models.
func generate(t *testing.T, n int) (all []model) {
	t.Helper()
	for i := range n {
		m := model{fmt.Sprintf("m%d", i), filepath.Join(t.TempDir(), "model")}
		if err := models.Perturb(testkit.Model(), m.path, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// question is a request with its answer.
type question struct {
	cluster.Request
	answer cluster.Answer
}

// questions computes what each model continues the prompts with, on a node where it is alone: greedily,
// as testkit/reference does, and by sampling. It leaves out greedy requests after which two tokens are
// about equally likely, and fails if two models give the same answer.
func questions(t *testing.T, all []model, prompts []string, tokens int) (byModel [][]question) {
	t.Helper()
	alone := cluster.Up(t, cluster.Config{Nodes: 1, Devices: devices[2]})
	ctx := cluster.TestContext(t, 5*time.Minute)
	seen := map[string]string{}
	for _, m := range all {
		own, sure := asked(t, m, prompts, tokens)
		spec := &messages.DeploymentSpec{Name: m.name, Path: m.path, MaxSequences: new(uint32(maxSequences))}
		if err := alone.Deploy(ctx, spec); err != nil {
			t.Fatal(err)
		}
		var requests []cluster.Request
		for _, q := range own {
			requests = append(requests, q.Request)
		}
		answers, err := alone.Answers(ctx, requests)
		if err != nil {
			t.Fatal(err)
		}
		for i, answer := range answers {
			if i < sure && answer != own[i].answer {
				t.Fatalf("%s alone answers %+v with %+v, the reference with %+v", m.name, requests[i], answer,
					own[i].answer)
			}
			if other := seen[answer.Text]; other != "" {
				t.Fatalf("%s and %s both answer %q", other, m.name, answer.Text)
			}
			seen[answer.Text], own[i].answer = m.name, answer
		}
		byModel = append(byModel, own)
		err = alone.Call(ctx, "models.delete", &messages.DeleteModelRequest{Name: m.name},
			&messages.DeleteModelResponse{})
		if err != nil {
			t.Fatal(err)
		}
	}
	alone.Close()
	return byModel
}

// asked returns the requests for a model. The first ones are greedy and have the answers of the
// reference.
func asked(t *testing.T, m model, prompts []string, tokens int) (own []question, greedy int) {
	t.Helper()
	tok, err := tokenizer.Load(modelfile.Roots{}, filepath.Join(testkit.Model(), "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	ask := cluster.Request{Model: m.name, MaxTokens: tokens, IgnoreEOS: true, Wait: true, Timeout: patience.Seconds()}
	weights := reference.Load(t, m.path)
	for _, prompt := range prompts {
		ids, margin := weights.Greedy(tok.Encode(prompt, true), tokens)
		if ask.Prompt = prompt; margin >= certain {
			answer := cluster.Answer{Text: tok.Decode(ids, true), Finish: "length", Tokens: tokens}
			own = append(own, question{ask, answer})
		}
	}
	if len(own) == 0 {
		t.Fatalf("%s: no prompt has a certain answer", m.name)
	}
	greedy = len(own)
	for i, prompt := range prompts {
		ask.Prompt, ask.Temperature, ask.Seed = prompt, []float64{0.7, 1}[i%2], 1+i
		own = append(own, question{Request: ask})
	}
	return own, greedy
}

// demand returns a load with n requests. The model of rank r is asked for in proportion to
// 1/r^1.1. Every eighth request has little time.
func demand(byModel [][]question, n int) (l cluster.Load) {
	r := newRandom(1)
	var sum float64
	for rank := range byModel {
		sum += math.Pow(float64(rank+1), -1.1)
	}
	for i := range n {
		rank := 0
		for at := r.Float64() * sum; rank < len(byModel)-1; rank++ {
			if at -= math.Pow(float64(rank+1), -1.1); at < 0 {
				break
			}
		}
		q := byModel[rank][r.IntN(len(byModel[rank]))]
		if i%8 == 7 {
			q.Timeout = little.Seconds()
		}
		l.Requests, l.Answers = append(l.Requests, q.Request), append(l.Answers, q.answer)
	}
	return l
}
