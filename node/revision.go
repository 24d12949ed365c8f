package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"troupe/cluster/store"
	"troupe/engine"
	"troupe/messages"
	"troupe/modelfile"
	"troupe/modelfile/digest"
	"troupe/modelfile/safetensors"
)

// revise sets the deploy count and the digests of spec, which models.deploy or the configuration is
// about to store in place of stored. stored is nil if the deployment is new. known holds the
// digests of the files in the folder, if they are known already; revise reads no files.
//
// If known equals the stored revision, nothing changes. If known is empty, the first replica that
// loads the files records their digests, and replicas of the previous files serve until then.
// Another deploy in the meantime waits for the same record.
func revise(spec, stored *messages.DeploymentSpec, known engine.Digests) {
	spec.Deploy, spec.AskedRevision = stored.GetDeploy(), 0
	if spec.GetPath() != stored.GetPath() || known.Revision != stored.GetRevisionDigest() {
		spec.Deploy++
	}
	spec.WeightsDigest, spec.RevisionDigest = known.Weights, known.Revision
}

// Revise implements control.Backend.
func (n *Node) Revise(spec, stored *messages.DeploymentSpec) {
	revise(spec, stored, n.knownDigests(spec))
}

// knownDigests returns the digests of the files to deploy if another node reported them or this
// node has loaded them; otherwise it returns none.
func (n *Node) knownDigests(spec *messages.DeploymentSpec) engine.Digests {
	if spec.GetRevisionDigest() != "" {
		return engine.Digests{Weights: spec.GetWeightsDigest(), Revision: spec.GetRevisionDigest()}
	}
	d, _ := n.digestsOf(spec.GetPath())
	return d
}

// digestsOf returns the digests of a model's folder if the loader has read all of its files, and
// reports whether one of them has changed since.
func (n *Node) digestsOf(path string) (d engine.Digests, changed bool) {
	if id, ok := n.loader.(engine.DigestCache); ok {
		return id.CachedDigests(path)
	}
	return d, false
}

// recordDigests stores the digests that the first replica of a deployment found. It does nothing if
// digests are already stored or if the deployment was deployed again.
func (n *Node) recordDigests(ctx context.Context, name string, deploy uint64, weights, revision string) error {
	for {
		spec, at, err := n.store.Get(ctx, name)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil
		case err != nil:
			return err
		case spec.GetDeploy() != deploy || spec.GetRevisionDigest() != "":
			return nil
		}
		spec.WeightsDigest, spec.RevisionDigest, spec.AskedRevision = weights, revision, at
		if _, err = n.store.Put(ctx, spec, at); errors.Is(err, store.ErrConflict) {
			continue
		}
		if err == nil {
			n.events.Publish("model.identified", name,
				fmt.Sprintf("revision %s, weights %s", digest.Short(revision), digest.Short(weights)))
		}
		return err
	}
}

// folderFault returns why a replica could not be loaded again from its folder, or "".
func (n *Node) folderFault(spec *messages.ReplicaSpec, revision string) string {
	known, changed := n.digestsOf(spec.GetPath())
	where := spec.GetPath() + " of node " + n.cfg.Name
	_, config := n.cfg.Roots.Stat(filepath.Join(spec.GetPath(), "config.json"))
	weights, err := safetensors.Files(n.cfg.Roots, spec.GetPath())
	for _, path := range weights {
		if err == nil {
			_, err = n.cfg.Roots.Stat(path)
		}
	}
	switch err := cmp.Or(config, err); {
	case err != nil:
		return fmt.Sprintf("%s could not be loaded again from %s: %v; put the folder back", spec.GetName(), where, err)
	case changed || known.Revision != "" && known.Revision != revision:
		return fmt.Sprintf("%s could not be loaded again from %s, which has other files than revision %s; "+
			"run models.deploy to roll to the new files, or put the old files back", spec.GetName(), where,
			digest.Short(revision))
	}
	return ""
}

// Model implements control.Backend.
func (n *Node) Model(path string) (*messages.NodeModelResponse, error) {
	facts, err := n.checkModel(path)
	if missing(n.cfg.Roots, path, err) {
		return &messages.NodeModelResponse{Missing: true, Detail: err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	known, changed := n.digestsOf(path)
	return &messages.NodeModelResponse{WeightsDigest: known.Weights, RevisionDigest: known.Revision, Changed: changed,
		Sizes: &messages.ModelSizes{
			WeightBytes: uint64(facts.WeightBytes), KvTokenBytes: uint64(facts.KVTokenBytes),
			StreamBytes: uint64(facts.StreamBytes),
			RowBytes:    uint64(facts.RowBytes), LogitsBytes: uint64(facts.LogitsBytes),
			ContextTokens: uint64(facts.ContextTokens), AdapterBytes: uint64(facts.AdapterBytes),
			RankBytes: uint64(facts.RankBytes),
		}}, nil
}

// modelSizes returns the memory needs of a model. If its folder is missing on this node, it asks
// the others: the replicas may be on nodes that have the folder.
func (n *Node) modelSizes(path string) (engine.ModelInfo, error) {
	facts, err := n.inspect(path)
	if !missing(n.cfg.Roots, path, err) {
		return facts, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	found, viewErr := n.view.Model(ctx, path)
	if viewErr != nil {
		return facts, viewErr
	}
	s := found.GetSizes()
	return engine.ModelInfo{
		WeightBytes: int64(s.GetWeightBytes()), KVTokenBytes: int64(s.GetKvTokenBytes()),
		StreamBytes: int64(s.GetStreamBytes()),
		RowBytes:    int64(s.GetRowBytes()), LogitsBytes: int64(s.GetLogitsBytes()),
		ContextTokens: int(s.GetContextTokens()), AdapterBytes: int64(s.GetAdapterBytes()),
		RankBytes: int64(s.GetRankBytes()),
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
