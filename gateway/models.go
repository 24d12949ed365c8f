package gateway

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/engine"
	"troupe/gateway/openai"
	"troupe/messages"
	"troupe/modelfile"
	"troupe/modelfile/chat"
	"troupe/modelfile/digest"
	"troupe/modelfile/tokenizer"
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
	created   time.Time  // when its config.json was written
	settings  digest.Sum // of the files that it was read from
}

// models keeps what was read of the folders of deployments, by the digest of their files: a folder that is
// damaged, changed or gone since does no harm to a revision that is served.
type models struct {
	mu      sync.Mutex
	inspect func(path string) (engine.ModelInfo, error)
	log     zerolog.Logger
	roots   modelfile.Roots
	digests *digest.Cache
	known   map[string]*kept // by deployment
}

// kept is what was read of a deployment's folder, and the read that is under way.
type kept struct {
	good  []*version // the last that were read, the newest first
	reads *reading   // nil: none is under way
}

// keptVersions is how many revisions of a deployment are kept: the one before is served until the new one is loaded.
const keptVersions = 2

// version is a folder as it was when it was read.
type version struct {
	*model
	path   string
	deploy uint64 // that it was read for
}

// is reports whether this is the revision that a deployment asks for.
func (v *version) is(d *messages.DeploymentSpec) bool {
	if d.GetRevisionDigest() == "" {
		return v.path == d.GetPath() && v.deploy == d.GetDeploy()
	}
	weights, err := digest.Parse(d.GetWeightsDigest())
	return err == nil && digest.Revision(weights, v.settings).String() == d.GetRevisionDigest()
}

type reading struct {
	done  chan struct{}
	of    *messages.DeploymentSpec
	model *model
	err   error
}

// of returns the model of a deployment. A folder that could not be read is read again for the next request.
// As long as it is not known which files models.deploy has brought, those from before are served, if there
// were any.
func (m *models) of(d *messages.DeploymentStatus) (*model, error) {
	spec := d.GetSpec()
	for {
		m.mu.Lock()
		k := m.kept(spec.GetName())
		if v := k.find(spec); v != nil {
			m.mu.Unlock()
			return v.model, nil
		}
		if r := k.reads; r != nil {
			m.mu.Unlock()
			<-r.done
			if proto.Equal(r.of, spec) {
				return m.result(spec, r)
			}
			continue
		}
		r := &reading{done: make(chan struct{}), of: spec, err: errUnread} // that error where reading panics
		k.reads = r
		m.mu.Unlock()
		m.run(k, r)
		return m.result(spec, r)
	}
}

func (m *models) kept(name string) *kept {
	if m.known == nil {
		m.known = make(map[string]*kept)
	}
	if m.known[name] == nil {
		m.known[name] = &kept{}
	}
	return m.known[name]
}

// find returns what was read of the revision that is served. The lock is held.
func (k *kept) find(d *messages.DeploymentSpec) *version {
	for _, v := range k.good {
		if v.is(d) {
			return v
		}
	}
	if d.GetRevisionDigest() == "" && len(k.good) > 0 && k.good[0].path == d.GetPath() {
		return k.good[0]
	}
	return nil
}

// run reads a folder, for all who wait for it.
func (m *models) run(k *kept, r *reading) {
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		k.reads = nil
		if r.err == nil {
			k.good = append([]*version{{r.model, r.of.GetPath(), r.of.GetDeploy()}}, k.good...)
			k.good = k.good[:min(len(k.good), keptVersions)]
		}
		close(r.done)
	}()
	r.model, r.err = m.read(r.of.GetPath())
	if r.err == nil && r.of.GetRevisionDigest() != "" && !(&version{model: r.model}).is(r.of) {
		r.err = fmt.Errorf("%s: its configuration, tokenizer or template is not that of revision %s, which is deployed; "+
			"run models.deploy to roll to the new files, or put the old files back", r.of.GetPath(),
			digest.Short(r.of.GetRevisionDigest()))
	}
}

func (m *models) result(spec *messages.DeploymentSpec, r *reading) (*model, error) {
	if r.err == nil {
		return r.model, nil
	}
	m.log.Warn().Err(r.err).Str("model", spec.GetName()).Msg("model folder not readable")
	if spec.GetRevisionDigest() != "" { // it was loaded, here or elsewhere
		return nil, openai.Refusal(messages.Reason_REASON_LOAD_FAILED, elsewhere)
	}
	return nil, openai.Refusal(messages.Reason_REASON_LOAD_FAILED, loadFailed)
}

// loadFailed is what clients are told. The reason names files of the host, so the log has it, and
// models.get.
const loadFailed = "the model could not be loaded; the log of the node says why"

// elsewhere likewise, where replicas may serve the model.
const elsewhere = "this node cannot read the model's tokenizer and configuration, though replicas on other nodes may serve it; ask " +
	"another node, or put the model's folder on this one: its log says what is wrong"

var errUnread = errors.New("the model's folder could not be read")

func (m *models) read(path string) (*model, error) {
	before, unread := digest.Settings(m.roots, path, m.digests)
	facts, err := m.inspect(path)
	if err == nil {
		err = unread
	}
	if err != nil {
		return nil, err
	}
	config, err := m.roots.Stat(filepath.Join(path, "config.json"))
	if err != nil {
		return nil, err
	}
	read := &model{context: facts.ContextTokens, vocab: facts.Vocab, created: config.ModTime(), settings: before}
	if read.tokenizer, err = tokenizer.LoadFor(m.roots, path, facts.Vocab); err != nil {
		return nil, err
	}
	read.template, read.noChat = chat.Load(m.roots, path)
	after, err := digest.Settings(m.roots, path, m.digests)
	if err == nil && after != before {
		err = digest.Changed(filepath.Join(path, "config.json, or the tokenizer"))
	}
	return read, err
}
