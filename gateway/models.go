package gateway

import (
	"context"
	"sync"

	"troupe/engine/chat"
	"troupe/engine/llama"
	"troupe/engine/tokenizer"
	"troupe/gateway/openai"
	"troupe/messages"
)

// Directory knows what is deployed. Its errors carry a *messages.Refused where the reason is known.
type Directory interface {
	Deployment(ctx context.Context, name string) (*messages.DeploymentStatus, error)
	Deployments(ctx context.Context) ([]*messages.DeploymentStatus, error)
}

// model is what the gateway needs of a model's folder.
type model struct {
	tokenizer *tokenizer.Tokenizer
	template  *chat.Template
	noChat    error // why there is no template
	context   int   // tokens
	vocab     int
}

// models keeps what was read, by folder and the revision of the deployment.
type models struct {
	mu    sync.Mutex
	known map[string]*entry
}

type entry struct {
	revision uint64
	once     sync.Once
	model    *model
	err      error
}

// of returns the model of a deployment. A folder that could not be read is read again for the next request.
func (m *models) of(d *messages.DeploymentStatus) (*model, error) {
	name := d.GetSpec().GetName()
	m.mu.Lock()
	if m.known == nil {
		m.known = make(map[string]*entry)
	}
	e, ok := m.known[name]
	if !ok || e.revision != d.GetRevision() {
		e = &entry{revision: d.GetRevision()}
		m.known[name] = e
	}
	m.mu.Unlock()
	e.once.Do(func() { e.model, e.err = read(d.GetSpec().GetPath()) })
	if e.err != nil {
		m.mu.Lock()
		if m.known[name] == e {
			delete(m.known, name)
		}
		m.mu.Unlock()
		return nil, openai.Refusal(messages.Reason_REASON_LOAD_FAILED, e.err.Error())
	}
	return e.model, nil
}

func read(path string) (*model, error) {
	cfg, err := llama.ReadConfig(path)
	if err != nil {
		return nil, err
	}
	m := &model{context: cfg.ContextTokens, vocab: cfg.Vocab}
	if m.tokenizer, err = tokenizer.Load(path); err != nil {
		return nil, err
	}
	if err := m.tokenizer.Fits(cfg.Vocab); err != nil {
		return nil, err
	}
	m.template, m.noChat = chat.Load(path)
	return m, nil
}
