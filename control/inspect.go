package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"troupe/messages"
	"troupe/modelfile/digest"
)

// modelAnswer is a node's answer about a model's folder.
type modelAnswer struct {
	node  string
	model *messages.NodeModelResponse // nil if err is set
	err   error
}

// digests sets the digests of the files in the folder of spec if they are known. It does not wait for files
// to be read. An error reports an invalid model or a folder that no node has. If the folder is gone, but
// nodes have images of the deployed revision, that stays deployed, and detail says so.
func (v *View) digests(ctx context.Context, spec, stored *messages.DeploymentSpec) (detail string, err error) {
	path, deployed := spec.GetPath(), ""
	if abs, err := filepath.Abs(path); err == nil && abs == stored.GetPath() {
		deployed = stored.GetRevisionDigest()
	}
	found, err := v.Model(ctx, spec.GetEngine().GetKind(), path, deployed)
	if err != nil {
		return "", err
	}
	spec.WeightsDigest, spec.RevisionDigest = found.GetWeightsDigest(), found.GetRevisionDigest()
	if found.GetImage() {
		detail = fmt.Sprintf("no node has the folder %s any longer; revision %s is loaded from images of it", path,
			digest.Short(found.GetRevisionDigest()))
	}
	return detail, nil
}

// Model describes a model's folder as this node sees it. If this node does not have the folder, or
// has not loaded its files, Model asks the other nodes. engine is the kind of engine that is to serve it;
// empty: native. revision is the one that is deployed from the folder; empty: none is.
func (v *View) Model(ctx context.Context, engine, path, revision string) (*messages.NodeModelResponse, error) {
	own, all, err := v.askForModel(ctx, engine, path, revision)
	if err != nil || all == nil {
		return own, err
	}
	return mergeAnswers(path, revision, all)
}

// Sizes describes a model's folder as Model does, or any image of it if no node has it.
func (v *View) Sizes(ctx context.Context, engine, path string) (*messages.NodeModelResponse, error) {
	own, all, err := v.askForModel(ctx, engine, path, "")
	if err != nil || all == nil {
		return own, err
	}
	found, err := mergeAnswers(path, "", all)
	for _, a := range all {
		if err != nil && a.err == nil && a.model.GetImage() {
			return a.model, nil
		}
	}
	return found, err
}

// askForModel returns the answer of this node if it knows the folder, or else those of all nodes.
func (v *View) askForModel(
	ctx context.Context, engine, path, revision string,
) (own *messages.NodeModelResponse, all []modelAnswer, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, nil, err
	}
	own, err = v.Backend.Model(engine, path, revision)
	if err != nil || own.GetChanged() || own.GetRevisionDigest() != "" && !own.GetImage() {
		return own, nil, err
	}
	return nil, askAll(ctx, v.runtime(), v.members(), func(ctx context.Context, m *messages.Member) modelAnswer {
		a := modelAnswer{node: m.GetName(), model: own}
		if m.GetName() != v.Node {
			a.model = &messages.NodeModelResponse{}
			a.err = v.ask(ctx, m.GetName()+".model",
				&messages.NodeModelRequest{Path: path, RevisionDigest: revision, Engine: engine}, a.model)
		}
		return a
	}), nil
}

// mergeAnswers combines the answers of all nodes into one. If a node has seen the files change, or
// if they differ between nodes, their digests are unknown: the first replica that loads the files
// determines them. Images count only if no node has the folder.
func mergeAnswers(path, revision string, all []modelAnswer) (*messages.NodeModelResponse, error) {
	var found *messages.NodeModelResponse
	var asked, faults []string
	missing := path + ": no such folder"
	for _, a := range all {
		asked = append(asked, a.node)
		switch m := a.model; {
		case a.err != nil:
			faults = append(faults, fmt.Sprintf("%s: %s", a.node, unreachableReason(a.err)))
		case m.GetMissing():
			missing = cmp.Or(m.GetDetail(), missing)
		case m.GetImage():
		case found == nil:
			found = m
		case m.GetChanged(), found.GetChanged():
			found = &messages.NodeModelResponse{Changed: true, Sizes: found.GetSizes()}
		case found.GetRevisionDigest() == "":
			found = m
		case m.GetRevisionDigest() != "" && m.GetRevisionDigest() != found.GetRevisionDigest():
			found = &messages.NodeModelResponse{Changed: true, Sizes: found.GetSizes()}
		}
	}
	if found != nil {
		return found, nil
	}
	image, others := imageOf(revision, all)
	if image != nil {
		return image, nil
	}
	detail := missing + "; no node has this folder or may read it; asked: " + strings.Join(asked, ", ")
	if len(faults) > 0 {
		detail += " (" + strings.Join(faults, "; ") + ")"
	}
	if others != "" {
		detail += "; there are images of other files that it had: " + others
	}
	if revision != "" {
		detail += "; revision " + digest.Short(revision) + " stays deployed; put the folder back, or change the " +
			"number of replicas by models.scale"
	}
	return nil, errors.New(detail)
}

// imageOf returns the answer of a node that has an image of a revision. If no revision is given, all
// images must be of the same one. Otherwise others says what the nodes have.
func imageOf(revision string, all []modelAnswer) (image *messages.NodeModelResponse, others string) {
	var seen []string
	for _, a := range all {
		if a.err != nil || !a.model.GetImage() {
			continue
		}
		if is := a.model.GetRevisionDigest(); is == revision {
			return a.model, ""
		} else if !slices.Contains(seen, is) {
			image, seen = a.model, append(seen, is)
		}
	}
	if revision == "" && len(seen) == 1 {
		return image, ""
	}
	for i := range seen {
		seen[i] = digest.Short(seen[i])
	}
	return nil, strings.Join(seen, ", ")
}

func (c *control) nodeModel(_ context.Context, req *messages.NodeModelRequest) (*messages.NodeModelResponse, error) {
	found, err := c.Backend.Model(req.GetEngine(), req.GetPath(), req.GetRevisionDigest())
	if err != nil {
		err = Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
	}
	return found, err
}
