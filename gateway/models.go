package gateway

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"troupe/engine"
	"troupe/engine/chat"
	"troupe/engine/modelfile"
	"troupe/engine/tokenizer"
	"troupe/gateway/openai"
	"troupe/messages"
)

// Directory knows what is deployed. Its errors carry a *messages.Refused where the reason is known.
type Directory interface {
	// Deployment returns a deployment's specification and revision, if nothing else.
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
	created   time.Time // when its config.json was written
}

// models keeps what was read, by folder and the revision of the deployment.
type models struct {
	mu      sync.Mutex
	inspect func(path string) (engine.Facts, error)
	log     zerolog.Logger
	roots   modelfile.Roots
	known   map[string]*entry
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
	e.once.Do(func() {
		e.err = errUnread // where reading panics
		e.model, e.err = m.read(d.GetSpec().GetPath())
	})
	if e.err != nil {
		m.mu.Lock()
		if m.known[name] == e {
			delete(m.known, name)
		}
		m.mu.Unlock()
		m.log.Warn().Err(e.err).Str("model", name).Msg("model folder not readable")
		return nil, openai.Refusal(messages.Reason_REASON_LOAD_FAILED, loadFailed)
	}
	return e.model, nil
}

// loadFailed is what clients are told. The reason names files of the host, so the log has it, and
// models.get.
const loadFailed = "the model could not be loaded; the log of the node says why"

var errUnread = errors.New("the model's folder could not be read")

func (m *models) read(path string) (*model, error) {
	facts, err := m.inspect(path)
	if err != nil {
		return nil, err
	}
	config, err := m.roots.Stat(filepath.Join(path, "config.json"))
	if err != nil {
		return nil, err
	}
	read := &model{context: facts.ContextTokens, vocab: facts.Vocab, created: config.ModTime()}
	if read.tokenizer, err = tokenizer.LoadFor(m.roots, path, facts.Vocab); err != nil {
		return nil, err
	}
	read.template, read.noChat = chat.Load(m.roots, path)
	return read, nil
}
