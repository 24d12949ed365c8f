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

// revise decides which files a deployment is to have that models.deploy, or the configuration, stores over
// what is stored: those of its folder, as they are now. Where they are known to be those that it has,
// nothing changes; where they are not known, the first replica that loads them says what they are, and
// replicas of the files before serve until then. It does not wait for files to be read. The deployment has
// the fields of what is stored, or none.
//
// Until the first replica has said what they are, another models.deploy waits for the same answer.
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

// knownDigests are those of the files that are to be deployed, as far as they are known: as another node
// has said, or by this node's own loads.
func (n *Node) knownDigests(spec *messages.DeploymentSpec) engine.Digests {
	if spec.GetRevisionDigest() != "" {
		return engine.Digests{Weights: spec.GetWeightsDigest(), Revision: spec.GetRevisionDigest()}
	}
	d, _ := n.format().Known(spec.GetPath())
	return d
}

// recordDigests stores the digests of the files that the first replica of a deployment has found. Where
// there are some already, or models.deploy has come since, those count.
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

// folderFault says why a replica could not be loaded again from its folder; empty: nothing is known against it.
func (n *Node) folderFault(spec *messages.ReplicaSpec, revision string) string {
	known, changed := n.format().Known(spec.GetPath())
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

// Model implements control.Backend: it says what this node knows of a model's folder.
func (n *Node) Model(path string) (*messages.NodeModelResponse, error) {
	facts, err := n.check(path)
	if missing(n.cfg.Roots, path, err) {
		return &messages.NodeModelResponse{Missing: true, Detail: err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	known, changed := n.format().Known(path)
	return &messages.NodeModelResponse{WeightsDigest: known.Weights, RevisionDigest: known.Revision, Changed: changed,
		Sizes: &messages.ModelSizes{
			WeightBytes: uint64(facts.WeightBytes), KvTokenBytes: uint64(facts.KVTokenBytes),
			StreamBytes: uint64(facts.StreamBytes),
			RowBytes:    uint64(facts.RowBytes), LogitsBytes: uint64(facts.LogitsBytes),
			ContextTokens: uint64(facts.ContextTokens), AdapterBytes: uint64(facts.AdapterBytes),
			RankBytes: uint64(facts.RankBytes),
		}}, nil
}

// size says how much memory a model takes, for deployments: their replicas may be on nodes that have its
// folder, though this one has not.
func (n *Node) size(path string) (engine.Facts, error) {
	facts, err := n.inspect(path)
	if !missing(n.cfg.Roots, path, err) {
		return facts, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	found, asked := n.view.Model(ctx, path)
	if asked != nil {
		return facts, asked
	}
	s := found.GetSizes()
	return engine.Facts{
		WeightBytes: int64(s.GetWeightBytes()), KVTokenBytes: int64(s.GetKvTokenBytes()),
		StreamBytes: int64(s.GetStreamBytes()),
		RowBytes:    int64(s.GetRowBytes()), LogitsBytes: int64(s.GetLogitsBytes()),
		ContextTokens: int(s.GetContextTokens()), AdapterBytes: int64(s.GetAdapterBytes()),
		RankBytes: int64(s.GetRankBytes()),
	}, nil
}

// missing reports whether a folder could not be inspected since it is not there, or may not be read.
func missing(roots modelfile.Roots, path string, err error) bool {
	if err == nil {
		return false
	}
	return errors.Is(err, modelfile.ErrOutside) || errors.Is(roots.CheckFolder(path), fs.ErrNotExist)
}
