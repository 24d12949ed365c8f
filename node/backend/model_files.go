package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"troupe/actors/supervise"
	core "troupe/core/backend"
	"troupe/core/replica"
	"troupe/engine"
	"troupe/messages"
	"troupe/modelfile"
	"troupe/modelfile/chat"
	"troupe/modelfile/digest"
	"troupe/modelfile/safetensors"
	"troupe/modelfile/tokenizer"
	"troupe/node/query"
)

// ModelFiles reads the folders of models on this node.
type ModelFiles struct {
	Node   string // name of this node
	Roots  modelfile.Roots
	Loader func(core.Kind) engine.Loader
	// Inspect reads the properties of a model from its folder.
	Inspect func(kind core.Kind, path string) (engine.ModelInfo, error)
	// Image returns an image on this node of the files that a folder had: of the given revision if there is
	// one, or else the one that was used last; nil: there is none.
	Image func(path, revision string) *engine.Image
	// Source returns where a device would load the weights of a revision from without their folder; empty:
	// from nowhere. It may ask other nodes.
	Source func(gpu, revision string) string
	// Elsewhere asks the other nodes about a folder that is missing on this node.
	Elsewhere func(ctx context.Context, engine, path string) (*messages.NodeModelResponse, error)
	Runtime   supervise.Runtime
}

// Revise implements control.Backend.
func (f *ModelFiles) Revise(spec, stored *messages.DeploymentSpec) {
	Revise(spec, stored, f.knownDigests(spec))
}

// knownDigests returns the digests of the files to deploy if another node has reported them or this
// node has loaded the files. Otherwise it returns none.
func (f *ModelFiles) knownDigests(spec *messages.DeploymentSpec) engine.Digests {
	if spec.GetRevisionDigest() != "" {
		return engine.Digests{Weights: spec.GetWeightsDigest(), Revision: spec.GetRevisionDigest()}
	}
	d, _ := f.digestsOf(kindOf(spec), spec.GetPath())
	return d
}

// kindOf returns the kind of engine of a deployment or replica.
func kindOf(spec interface{ GetEngine() *messages.EngineSpec }) core.Kind {
	return core.Kind(spec.GetEngine().GetKind()).OrNative()
}

// digestsOf returns the digests of a model's folder if the loader has read all of its files.
// changed reports whether one of the files has changed since.
func (f *ModelFiles) digestsOf(kind core.Kind, path string) (d engine.Digests, changed bool) {
	if id, ok := f.Loader(kind).(engine.DigestCache); ok {
		return id.CachedDigests(path)
	}
	return d, false
}

// CheckFolder returns whether a replica could be loaded again from its folder. If the folder is gone, it looks
// for another source of the weights. Files that were replaced remain a fault: only an operator knows which ones
// are to be served.
func (f *ModelFiles) CheckFolder(spec *messages.ReplicaSpec, revision string) replica.Folder {
	known, changed := f.digestsOf(kindOf(spec), spec.GetPath())
	where := spec.GetPath() + " of node " + f.Node
	_, config := f.Roots.Stat(filepath.Join(spec.GetPath(), "config.json"))
	var weights []string
	var err error
	if kindOf(spec) != core.Simulated { // which needs no weights
		weights, err = safetensors.Files(f.Roots, spec.GetPath())
	}
	for _, path := range weights {
		if err == nil {
			_, err = f.Roots.Stat(path)
		}
	}
	switch err := cmp.Or(config, err); {
	case err != nil:
		return replica.Folder{
			Fault: fmt.Sprintf("%s could not be loaded again from %s: %v; put the folder back", spec.GetName(), where,
				err),
			Elsewhere: f.Source(spec.GetGpu(), revision),
		}
	case changed || known.Revision != "" && known.Revision != revision:
		return replica.Folder{Fault: fmt.Sprintf("%s could not be loaded again from %s, which has other files than "+
			"revision %s; run models.deploy to roll to the new files, or put the old files back", spec.GetName(), where,
			digest.Short(revision))}
	}
	return replica.Folder{}
}

// Model implements control.Backend.
func (f *ModelFiles) Model(engine, path, revision string) (*messages.NodeModelResponse, error) {
	kind := core.Kind(engine).OrNative()
	facts, err := f.Check(kind, path)
	if image := f.imageOfMissing(path, revision, err); image != nil {
		return &messages.NodeModelResponse{Image: true, Sizes: sizesOf(image.Info),
			WeightsDigest: image.Digests.Weights, RevisionDigest: image.Digests.Revision}, nil
	}
	if missing(f.Roots, path, err) {
		return &messages.NodeModelResponse{Missing: true, Detail: err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	known, changed := f.digestsOf(kind, path)
	return &messages.NodeModelResponse{WeightsDigest: known.Weights, RevisionDigest: known.Revision, Changed: changed,
		Sizes: sizesOf(facts)}, nil
}

func sizesOf(facts engine.ModelInfo) *messages.ModelSizes {
	return &messages.ModelSizes{
		WeightBytes: uint64(facts.WeightBytes), KvTokenBytes: uint64(facts.KVTokenBytes),
		StreamBytes: uint64(facts.StreamBytes),
		RowBytes:    uint64(facts.RowBytes), LogitsBytes: uint64(facts.LogitsBytes),
		ContextTokens: uint64(facts.ContextTokens), AdapterBytes: uint64(facts.AdapterBytes),
		RankBytes: uint64(facts.RankBytes), GraphOps: uint32(facts.GraphOps),
		LoraGraphOps: uint32(facts.LoRAGraphOps), GraphOpBytes: uint64(facts.GraphOpBytes),
	}
}

// imageOfMissing returns the image of a model whose folder is missing, as err says; nil if it has none.
func (f *ModelFiles) imageOfMissing(path, revision string, err error) *engine.Image {
	if f.Image == nil || !missing(f.Roots, path, err) {
		return nil
	}
	return f.Image(path, revision)
}

// Sizes returns the memory needs of a model. If its folder is missing on this node, they are those of
// its image. Without one, it asks the other nodes, because the replicas may run on nodes that have the
// folder.
func (f *ModelFiles) Sizes(kind core.Kind, path string) (engine.ModelInfo, error) {
	facts, err := f.Inspect(kind, path)
	if image := f.imageOfMissing(path, "", err); image != nil {
		return image.Info, nil
	}
	if !missing(f.Roots, path, err) {
		return facts, err
	}
	ctx, cancel := f.Runtime.WithTimeout(context.Background(), query.Timeout)
	defer cancel()
	found, viewErr := f.Elsewhere(ctx, string(kind), path)
	if viewErr != nil {
		return facts, viewErr
	}
	s := found.GetSizes()
	return engine.ModelInfo{
		WeightBytes: int64(s.GetWeightBytes()), KVTokenBytes: int64(s.GetKvTokenBytes()),
		StreamBytes: int64(s.GetStreamBytes()),
		RowBytes:    int64(s.GetRowBytes()), LogitsBytes: int64(s.GetLogitsBytes()),
		ContextTokens: int(s.GetContextTokens()), AdapterBytes: int64(s.GetAdapterBytes()),
		RankBytes: int64(s.GetRankBytes()), GraphOps: int(s.GetGraphOps()),
		LoRAGraphOps: int(s.GetLoraGraphOps()), GraphOpBytes: int64(s.GetGraphOpBytes()),
	}, nil
}

// missing reports whether an inspection failed because the folder does not exist or is outside the
// roots.
func missing(roots modelfile.Roots, path string, err error) bool {
	if err == nil {
		return false
	}
	return errors.Is(err, modelfile.ErrOutside) || errors.Is(roots.CheckFolder(path), fs.ErrNotExist)
}

// Check checks that the model in a folder can serve requests and that its chat template works.
func (f *ModelFiles) Check(kind core.Kind, path string) (engine.ModelInfo, error) {
	if err := f.Roots.Check(path); err != nil {
		return engine.ModelInfo{}, err
	}
	facts, err := f.Inspect(kind, path)
	if err != nil {
		return facts, err
	}
	if _, err := tokenizer.LoadFor(f.Roots, path, facts.Vocab); err != nil {
		return facts, err
	}
	return facts, chat.Try(f.Roots, path)
}
