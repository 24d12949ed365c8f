package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/core/backend"
	"troupe/engine"
	"troupe/gateway/openai"
	"troupe/messages"
	"troupe/modelfile"
	"troupe/modelfile/chat"
	"troupe/modelfile/digest"
	"troupe/modelfile/tokenizer"
)

// Directory lists the deployments. Its errors carry a *messages.Refused if the reason is known.
type Directory interface {
	// Deployment returns the status of a deployment. Only the spec and the revision need to be set.
	Deployment(ctx context.Context, name string) (*messages.DeploymentStatus, error)
	Deployments(ctx context.Context) ([]*messages.DeploymentStatus, error)
}

// model is the part of a model's folder that the gateway needs.
type model struct {
	tokenizer   *tokenizer.Tokenizer
	template    *chat.Template
	templateErr error // why template is nil
	context     int   // in tokens
	vocab       int
	created     time.Time  // modification time of config.json
	settings    digest.Sum // digest of the files that it was read from
}

// modelCache keeps the models of deployments by the digest of their files. If a folder is damaged,
// changed or removed later, the served revision remains usable.
type modelCache struct {
	mu      sync.Mutex
	inspect func(kind backend.Kind, path string) (engine.ModelInfo, error)
	rt      supervise.Runtime
	log     zerolog.Logger
	panics  zerolog.Logger // receives panics of loads
	roots   modelfile.Roots
	digests *digest.Cache
	image   func(revision string) *engine.Image // in host memory; nil: none
	loaded  func()                              // called after a model was loaded; nil: no call
	entries map[string]*cacheEntry              // by deployment
}

// cacheEntry holds the models of one deployment, and the load in flight.
type cacheEntry struct {
	versions []*version // the last ones that were read, newest first
	loading  *modelLoad // nil: no load is in flight
}

// maxVersions bounds the kept revisions of a deployment. The previous one is served until the new
// one is loaded.
const maxVersions = 2

// version is the content of a folder when it was read.
type version struct {
	*model
	path   string
	deploy uint64 // the deploy that it was read for
}

// matches reports whether v is the revision that a deployment wants.
func (v *version) matches(d *messages.DeploymentSpec) bool {
	if d.GetRevisionDigest() == "" {
		return v.path == d.GetPath() && v.deploy == d.GetDeploy()
	}
	weights, err := digest.Parse(d.GetWeightsDigest())
	return err == nil && digest.Revision(weights, v.settings).String() == d.GetRevisionDigest()
}

// modelLoad is a load in flight. Each request that waits for it has a channel, which is closed in a
// goroutine of its own: a runtime decides in which order the requests continue.
type modelLoad struct {
	waiters []chan struct{}

	spec  *messages.DeploymentSpec
	model *model
	err   error
}

// get returns the model of a deployment. A failed load is retried by the next request. While the
// revision of a new deploy is not known yet, the previous model is returned if there is one. The
// load continues if ctx ends.
func (m *modelCache) get(ctx context.Context, d *messages.DeploymentStatus) (*model, error) {
	spec := d.GetSpec()
	for {
		m.mu.Lock()
		e := m.entry(spec.GetName())
		if v := e.find(spec); v != nil {
			m.mu.Unlock()
			return v.model, nil
		}
		load := e.loading
		if load == nil {
			load = &modelLoad{spec: spec}
			e.loading = load
			m.rt.Go(func() { m.load(e, load) })
		}
		loaded := make(chan struct{})
		load.waiters = append(load.waiters, loaded)
		m.mu.Unlock()
		select {
		case <-loaded:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if proto.Equal(load.spec, spec) {
			return m.loadResult(spec, load)
		}
	}
}

// retain drops the models of deployments that no longer exist.
func (m *modelCache) retain(deployed map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.entries, func(name string, e *cacheEntry) bool { return !deployed[name] && e.loading == nil })
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

// find returns the version of the served revision, or nil. The cache's lock must be held.
func (e *cacheEntry) find(d *messages.DeploymentSpec) *version {
	for _, v := range e.versions {
		if v.matches(d) {
			return v
		}
	}
	if d.GetRevisionDigest() == "" && len(e.versions) > 0 && e.versions[0].path == d.GetPath() {
		return e.versions[0]
	}
	return nil
}

// load reads a folder for all requests that wait for it. It then calls loaded; no request waits for
// that call.
func (m *modelCache) load(e *cacheEntry, load *modelLoad) {
	var failed error
	defer recoverPanic(m.panics, &failed)
	m.loadOnce(e, load)
	if load.err == nil && m.loaded != nil {
		m.loaded()
	}
}

// loadOnce reads a folder and ends the load.
func (m *modelCache) loadOnce(e *cacheEntry, load *modelLoad) {
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		e.loading = nil
		if load.err == nil {
			e.versions = append([]*version{{load.model, load.spec.GetPath(), load.spec.GetDeploy()}}, e.versions...)
			e.versions = e.versions[:min(len(e.versions), maxVersions)]
		}
		for _, loaded := range load.waiters {
			m.rt.Go(func() { close(loaded) })
		}
	}()
	defer recoverPanic(m.panics, &load.err)
	load.model, load.err = m.read(load.spec)
	if load.err == nil && load.spec.GetRevisionDigest() != "" && !(&version{model: load.model}).matches(load.spec) {
		load.err = fmt.Errorf("%s: configuration, tokenizer or template differ from the deployed revision %s; "+
			"run models.deploy to roll to the new files, or put the old files back",
			load.spec.GetPath(), digest.Short(load.spec.GetRevisionDigest()))
	}
}

func (m *modelCache) loadResult(spec *messages.DeploymentSpec, load *modelLoad) (*model, error) {
	if load.err == nil {
		return load.model, nil
	}
	if e := (*openai.Error)(nil); errors.As(load.err, &e) {
		return nil, e // the load panicked
	}
	m.log.Warn().Err(load.err).Str("model", spec.GetName()).Msg("reading model folder failed")
	// The revision is known once a replica has loaded the model, here or on another node.
	if spec.GetRevisionDigest() != "" {
		return nil, openai.Refusal(messages.Reason_REASON_LOAD_FAILED, unreadableHereText)
	}
	return nil, openai.Refusal(messages.Reason_REASON_LOAD_FAILED, loadFailedText)
}

// loadFailedText is the error for clients. The cause names files of the host, so only the log and
// models.get show it.
const loadFailedText = "the model could not be loaded; see the node's log"

// unreadableHereText is the error for clients if other nodes may serve the model.
const unreadableHereText = "this node cannot read the model's tokenizer and configuration, " +
	"but replicas on other nodes may serve it; ask another node, or put the model's folder on this one; " +
	"its log contains the cause"

// read reads the folder of a deployment. If the folder is missing, the image of its files has the content.
func (m *modelCache) read(spec *messages.DeploymentSpec) (*model, error) {
	path := spec.GetPath()
	kind := backend.Kind(spec.GetEngine().GetKind()).OrNative()
	inspect := func(path string) (engine.ModelInfo, error) { return m.inspect(kind, path) }
	read, err := m.readFrom(m.roots, path, m.digests, inspect)
	if err == nil || m.image == nil || !m.missing(path) {
		return read, err
	}
	image := m.image(spec.GetRevisionDigest())
	if image == nil {
		return nil, err
	}
	return m.readFrom(modelfile.InMemory(path, image.Files), path, nil,
		func(string) (engine.ModelInfo, error) { return image.Info, nil })
}

// missing reports whether a folder does not exist or is outside the roots.
func (m *modelCache) missing(path string) bool {
	err := m.roots.CheckFolder(path)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, modelfile.ErrOutside)
}

// sameFiles returns a model that was read from the same files, for as many tokens, or nil: other
// deployments may have the same tokenizer, and so may other revisions of this one.
func (m *modelCache) sameFiles(as *model) *model {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		for _, v := range e.versions {
			if v.settings == as.settings && v.vocab == as.vocab && v.templateErr == nil { // which has a path
				return v.model
			}
		}
	}
	return nil
}

func (m *modelCache) readFrom(
	roots modelfile.Roots, path string, digests *digest.Cache, inspect func(path string) (engine.ModelInfo, error),
) (*model, error) {
	before, unread := digest.Settings(roots, path, digests)
	facts, err := inspect(path)
	if err == nil {
		err = unread
	}
	if err != nil {
		return nil, err
	}
	config, err := roots.Stat(filepath.Join(path, "config.json"))
	if err != nil {
		return nil, err
	}
	read := &model{context: facts.ContextTokens, vocab: facts.Vocab, created: config.ModTime(), settings: before}
	if same := m.sameFiles(read); same != nil {
		read.tokenizer, read.template = same.tokenizer, same.template
		return read, nil
	}
	if read.tokenizer, err = tokenizer.LoadFor(roots, path, facts.Vocab); err != nil {
		return nil, err
	}
	read.template, read.templateErr = chat.Load(roots, path)
	after, err := digest.Settings(roots, path, digests)
	if err == nil && after != before {
		err = digest.Changed(filepath.Join(path, "config.json, or the tokenizer"))
	}
	return read, err
}
