package identity_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

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

// questions computes what each model continues the prompts with. It leaves out prompts after which
// two tokens are about equally likely, and fails if two models give the same answer.
func questions(t *testing.T, all []model, prompts []string, tokens int) (byModel [][]question) {
	t.Helper()
	tok, err := tokenizer.Load(modelfile.Roots{}, filepath.Join(testkit.Model(), "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, m := range all {
		var own []question
		weights := reference.Load(t, m.path)
		for _, prompt := range prompts {
			ids, margin := weights.Greedy(tok.Encode(prompt, true), tokens)
			if margin < certain || math.IsNaN(margin) {
				continue
			}
			answer := cluster.Answer{Text: tok.Decode(ids, true), Finish: "length", Tokens: tokens}
			if other := seen[prompt+answer.Text]; other != "" {
				t.Fatalf("%s and %s both continue %q with %q", other, m.name, prompt, answer.Text)
			}
			seen[prompt+answer.Text] = m.name
			own = append(own, question{cluster.Request{
				Model: m.name, Prompt: prompt, MaxTokens: tokens, IgnoreEOS: true}, answer})
		}
		if len(own) == 0 {
			t.Fatalf("%s: no prompt has a certain answer", m.name)
		}
		byModel = append(byModel, own)
	}
	return byModel
}

// demand returns a load with n requests. The model of rank r is asked for in proportion to
// 1/r^1.1.
func demand(byModel [][]question, n int, seed uint64) (l cluster.Load) {
	r := rand.New(rand.NewPCG(seed, 1))
	var sum float64
	for rank := range byModel {
		sum += math.Pow(float64(rank+1), -1.1)
	}
	for range n {
		rank := 0
		for at := r.Float64() * sum; rank < len(byModel)-1; rank++ {
			if at -= math.Pow(float64(rank+1), -1.1); at < 0 {
				break
			}
		}
		q := byModel[rank][r.IntN(len(byModel[rank]))]
		l.Requests, l.Answers = append(l.Requests, q.Request), append(l.Answers, q.answer)
	}
	return l
}
