package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"troupe/messages"
)

// modelAnswer is a node's answer about a model's folder.
type modelAnswer struct {
	node  string
	model *messages.NodeModelResponse // nil if err is set
	err   error
}

// digests returns the digests of the files in a model's folder if they are known. It does not wait
// for files to be read. An error reports an invalid model or a folder that no node has.
func (v *View) digests(ctx context.Context, path string) (weights, revision string, err error) {
	found, err := v.Model(ctx, path)
	return found.GetWeightsDigest(), found.GetRevisionDigest(), err
}

// Model describes a model's folder as this node sees it. If this node does not have the folder, or
// has not loaded its files, Model asks the other nodes.
func (v *View) Model(ctx context.Context, path string) (*messages.NodeModelResponse, error) {
	own, err := v.Backend.Model(path)
	if err != nil || own.GetChanged() || own.GetRevisionDigest() != "" {
		return own, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	answers := askAll(ctx, v.runtime(), v.members(), func(ctx context.Context, m *messages.Member) modelAnswer {
		a := modelAnswer{node: m.GetName(), model: own}
		if m.GetName() != v.Node {
			a.model = &messages.NodeModelResponse{}
			a.err = v.ask(ctx, m.GetName()+".model", &messages.NodeModelRequest{Path: path}, a.model)
		}
		return a
	})
	return mergeAnswers(path, answers)
}

// mergeAnswers combines the answers of all nodes into one. If a node has seen the files change, or
// if they differ between nodes, their digests are unknown: the first replica that loads the files
// determines them.
func mergeAnswers(path string, all []modelAnswer) (*messages.NodeModelResponse, error) {
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
	detail := missing + "; no node has this folder or may read it; asked: " + strings.Join(asked, ", ")
	if len(faults) > 0 {
		detail += " (" + strings.Join(faults, "; ") + ")"
	}
	return nil, errors.New(detail)
}

func (c *control) nodeModel(_ context.Context, req *messages.NodeModelRequest) (*messages.NodeModelResponse, error) {
	found, err := c.Backend.Model(req.GetPath())
	if err != nil {
		err = Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
	}
	return found, err
}
