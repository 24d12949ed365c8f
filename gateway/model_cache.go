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
	tokenizer   *tokenizer.Tokenizer
	template    *chat.Template
	templateErr error // why there is no template
	context     int   // tokens
	vocab       int
	created     time.Time  // when its config.json was written
	settings    digest.Sum // of the files that it was read from
}

// models keeps what was read of the folders of deployments, by the digest of their files: a folder that is
// damaged, changed or gone since does no harm to a revision that is served.
type modelCache struct {
	mu      sync.Mutex
	inspect func(path string) (engine.Facts, error)
	log     zerolog.Logger
	roots   modelfile.Roots
	digests *digest.Cache
	entries map[string]*cacheEntry // by deployment
}

// kept is what was read of a deployment's folder, and the read that is under way.
type cacheEntry struct {
	versions []*version // the last that were read, the newest first
	loading  *modelLoad // nil: none is under way
}

// maxVersions is how many revisions of a deployment are kept: the one before is served until the new one is loaded.
const maxVersions = 2

// version is a folder as it was when it was read.
type version struct {
	*model
	path   string
	deploy uint64 // that it was read for
}

// is reports whether this is the revision that a deployment asks for.
func (v *version) matches(d *messages.DeploymentSpec) bool {
	if d.GetRevisionDigest() == "" {
		return v.path == d.GetPath() && v.deploy == d.GetDeploy()
	}
	weights, err := digest.Parse(d.GetWeightsDigest())
	return err == nil && digest.Revision(weights, v.settings).String() == d.GetRevisionDigest()
}

type modelLoad struct {
	done  chan struct{}
	spec  *messages.DeploymentSpec
	model *model
	err   error
}

// of returns the model of a deployment. A folder that could not be read is read again for the next request.
// As long as it is not known which files models.deploy has brought, those from before are served, if there
// were any.
func (m *modelCache) get(d *messages.DeploymentStatus) (*model, error) {
	spec := d.GetSpec()
	for {
		m.mu.Lock()
		k := m.entry(spec.GetName())
		if v := k.find(spec); v != nil {
			m.mu.Unlock()
			return v.model, nil
		}
		if r := k.loading; r != nil {
			m.mu.Unlock()
			<-r.done
			if proto.Equal(r.spec, spec) {
				return m.loadResult(spec, r)
			}
			continue
		}
		r := &modelLoad{done: make(chan struct{}), spec: spec, err: errUnread} // that error where modelLoad panics
		k.loading = r
		m.mu.Unlock()
		m.load(k, r)
		return m.loadResult(spec, r)
	}
}

func (m *modelCache) entry(name string) *cacheEntry {
	if m.entries == nil {
		m.entries = make(map[string]*cacheEntry)
	}
	if m.entries[name] == nil {
		m.entries[name] = &cacheEntry{}
	}
	return m.entries[name]
}

// find returns what was read of the revision that is served. The lock is held.
func (k *cacheEntry) find(d *messages.DeploymentSpec) *version {
	for _, v := range k.versions {
		if v.matches(d) {
			return v
		}
	}
	if d.GetRevisionDigest() == "" && len(k.versions) > 0 && k.versions[0].path == d.GetPath() {
		return k.versions[0]
	}
	return nil
}

// run reads a folder, for all who wait for it.
func (m *modelCache) load(k *cacheEntry, r *modelLoad) {
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		k.loading = nil
		if r.err == nil {
			k.versions = append([]*version{{r.model, r.spec.GetPath(), r.spec.GetDeploy()}}, k.versions...)
			k.versions = k.versions[:min(len(k.versions), maxVersions)]
		}
		close(r.done)
	}()
	r.model, r.err = m.read(r.spec.GetPath())
	if r.err == nil && r.spec.GetRevisionDigest() != "" && !(&version{model: r.model}).matches(r.spec) {
		r.err = fmt.Errorf(
			"%s: its configuration, tokenizer or template is not that of revision %s, which is deployed; "+
				"run models.deploy to roll to the new files, or put the old files back",
			r.spec.GetPath(),
			digest.Short(r.spec.GetRevisionDigest()),
		)
	}
}

func (m *modelCache) loadResult(spec *messages.DeploymentSpec, r *modelLoad) (*model, error) {
	if r.err == nil {
		return r.model, nil
	}
	m.log.Warn().Err(r.err).Str("model", spec.GetName()).Msg("model folder not readable")
	if spec.GetRevisionDigest() != "" { // it was loaded, here or unreadableHereText
		return nil, openai.Refusal(messages.Reason_REASON_LOAD_FAILED, unreadableHereText)
	}
	return nil, openai.Refusal(messages.Reason_REASON_LOAD_FAILED, loadFailedText)
}

// loadFailedText is what clients are told. The reason names files of the host, so the log has it, and
// models.get.
const loadFailedText = "the model could not be loaded; the log of the node says why"

// unreadableHereText likewise, where replicas may serve the model.
const unreadableHereText = "this node cannot read the model's tokenizer and configuration, though replicas on other nodes may serve it; ask " +
	"another node, or put the model's folder on this one: its log says what is wrong"

var errUnread = errors.New("the model's folder could not be read")

func (m *modelCache) read(path string) (*model, error) {
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
	read.template, read.templateErr = chat.Load(m.roots, path)
	after, err := digest.Settings(m.roots, path, m.digests)
	if err == nil && after != before {
		err = digest.Changed(filepath.Join(path, "config.json, or the tokenizer"))
	}
	return read, err
}
