package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/schedule"
	"troupe/messages"
	"troupe/modelfile"
	"troupe/modelfile/tokenizer"
	"troupe/simulate"
	"troupe/testkit/cluster"
	"troupe/testkit/models"
	"troupe/workload"
)

// model is a deployment of the pool and its load.
type model struct {
	name      string
	shape     *shape // of a simulated model; nil: a variant of the model that ships
	priority  schedule.Priority
	min, max  int
	idleAfter time.Duration // 0: it never sleeps
	slo       simulate.SLO
	load      workload.Load // without its length
	folder    string        // where prepare has made it
	number    int
}

// shape is the shape of a simulated model.
type shape struct{ layers, hidden, intermediate, heads, kvHeads int }

const (
	kvBlocks     = 256 // of real replicas
	maxSequences = 16
	blockTokens  = 16
	prompts      = 12 // distinct ones of a model, whose answers are known
	idle         = time.Minute
)

// pool returns the six models. Two are real: no more than two software devices are busy at once, one for each
// processor. The replicas of the others compute nothing, and take as long as those of their shape on an H200.
func pool() []*model {
	lengths := func(median float64) workload.Lengths {
		return workload.Lengths{Lognormal: workload.Lognormal{Median: median, Sigma: 0.5}, Max: 4 * int(median)}
	}
	load := func(rate float64, prompt, output float64, spikes ...workload.Spike) workload.Load {
		return workload.Load{Rate: rate, Prompt: lengths(prompt), Output: lengths(output), Spikes: spikes}
	}
	return []*model{
		{name: "code", priority: schedule.Critical, min: 1, max: 1,
			slo:  simulate.SLO{TTFT: 500 * time.Millisecond, TPOT: 50 * time.Millisecond},
			load: load(1, 60, 40)},
		{name: "notes", priority: schedule.Standard, min: 0, max: 1, idleAfter: idle,
			slo:  simulate.SLO{TTFT: 2 * time.Second, TPOT: 80 * time.Millisecond},
			load: load(0.02, 60, 40, workload.Spike{At: 3 * time.Minute, Length: 2 * time.Minute, Factor: 25})},
		{name: "translate", shape: &shape{32, 4096, 14336, 32, 8}, priority: schedule.High, min: 1, max: 2,
			slo:  simulate.SLO{TTFT: 500 * time.Millisecond, TPOT: 50 * time.Millisecond},
			load: load(4, 120, 60, workload.Spike{At: 2 * time.Minute, Length: time.Minute, Factor: 3})},
		{name: "chat", shape: &shape{40, 5120, 13824, 40, 40}, priority: schedule.Standard, min: 0, max: 2,
			idleAfter: idle, slo: simulate.SLO{TTFT: 2 * time.Second, TPOT: 80 * time.Millisecond},
			load: load(2, 100, 80)},
		{name: "review", shape: &shape{48, 8192, 22016, 64, 8}, priority: schedule.Standard, min: 0, max: 1,
			idleAfter: idle, slo: simulate.SLO{TTFT: 5 * time.Second, TPOT: 80 * time.Millisecond},
			load: load(0.02, 150, 60, workload.Spike{At: 6 * time.Minute, Length: 2 * time.Minute, Factor: 40})},
		{name: "summarize", shape: &shape{60, 8192, 22016, 64, 8}, priority: schedule.Batch, min: 0, max: 1,
			idleAfter: idle, load: load(0.5, 180, 40)},
	}
}

// prepare makes the folder of a model.
func (m *model) prepare(dir string, number int) error {
	m.folder, m.number = filepath.Join(dir, m.name), number
	if m.shape == nil {
		return models.Perturb(base, m.folder, uint64(number+1))
	}
	text, err := os.ReadFile(filepath.Join(baseShape, "config.json"))
	if err != nil {
		return err
	}
	config := make(map[string]any)
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	maps.Copy(config, map[string]any{"num_hidden_layers": m.shape.layers, "hidden_size": m.shape.hidden,
		"intermediate_size": m.shape.intermediate, "num_attention_heads": m.shape.heads,
		"num_key_value_heads": m.shape.kvHeads})
	if err := os.CopyFS(m.folder, os.DirFS(baseShape)); err != nil {
		return err
	}
	if text, err = json.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.folder, "config.json"), text, 0o644)
}

// spec returns the deployment.
func (m *model) spec() *messages.DeploymentSpec {
	s := &messages.DeploymentSpec{Name: m.name, Path: m.folder,
		Replicas: new(uint32(m.min)), MinReplicas: new(uint32(m.min)), MaxReplicas: new(uint32(m.max)),
		MaxSequences: new(uint32(maxSequences)), Priority: new(priorities[m.priority])}
	if m.idleAfter > 0 {
		s.IdleAfter = new(uint32(m.idleAfter.Seconds()))
	}
	if m.slo.TTFT > 0 {
		s.Slo = &messages.Slo{Ttft: durationpb.New(m.slo.TTFT), Tpot: durationpb.New(m.slo.TPOT)}
	}
	if m.shape == nil {
		s.KvBlocks = new(uint32(kvBlocks))
	} else {
		s.Engine = &messages.EngineSpec{Kind: "simulated"}
	}
	return s
}

var priorities = map[schedule.Priority]messages.Priority{
	schedule.Critical: messages.Priority_PRIORITY_CRITICAL, schedule.High: messages.Priority_PRIORITY_HIGH,
	schedule.Standard: messages.Priority_PRIORITY_STANDARD, schedule.Batch: messages.Priority_PRIORITY_BATCH,
}

// question is one of the requests of a model, of which the load has many.
type question struct {
	cluster.Request
	answer cluster.Answer
	tokens int // of the prompt
}

// questions returns the requests of a model whose answers are recorded: their lengths are the quantiles of those of
// the load.
func (m *model) questions(seed uint64) (all []question, err error) {
	load := m.load
	load.Length = time.Hour
	sample, err := workload.Collect(load.Requests(seed))
	if err != nil {
		return nil, err
	}
	t, err := tokenizer.Load(modelfile.Roots{}, m.folder)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(sample, func(a, b workload.Request) int { return a.Prompt - b.Prompt })
	for i := range prompts {
		q := sample[(2*i+1)*len(sample)/(2*prompts)]
		text := fmt.Sprintf("%s %d:", m.name, i)
		tokens := len(t.Encode(text, true))
		for tokens < q.Prompt {
			text += " " + words[(i+tokens)%len(words)]
			tokens = len(t.Encode(text, true))
		}
		all = append(all, question{tokens: tokens, Request: cluster.Request{Model: m.name, Prompt: text, Seed: i + 1,
			MaxTokens: max(2, q.Output), IgnoreEOS: true, Wait: true, Timeout: timeout.Seconds()}})
	}
	return all, nil
}

var words = strings.Fields("In the beginning God created the heaven and the earth and the earth was without form")

// asked is a question at a time.
type asked struct {
	at    time.Duration
	model *model
	*question
	number int // of the question
}

// ask returns the requests of the load in order: when they come is by the load, and what they ask by chance.
func (m *model) ask(of []question, length time.Duration, seed uint64) (all []asked, err error) {
	load := m.load
	load.Length = length
	requests, err := workload.Collect(load.Requests(seed))
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for _, r := range requests {
		i := random.IntN(len(of))
		all = append(all, asked{r.At, m, &of[i], i})
	}
	return all, nil
}

// simulated returns the request for the simulator. The same question has the same prefix.
func (a asked) simulated() workload.Request {
	r := workload.Request{At: a.at, Model: a.model.name, Prompt: a.tokens, Output: a.MaxTokens,
		PrefixBlock: blockTokens}
	for block := range a.tokens / blockTokens {
		r.Prefix = append(r.Prefix, uint64(a.model.number)<<48|uint64(a.number)<<32|uint64(block))
	}
	return r
}
