package whatif

import (
	"context"
	"time"

	"troupe/messages"
	"troupe/observe/top"
)

// Cluster is a running cluster.
type Cluster struct {
	Nodes  []*messages.NodeStatus
	Models []*messages.DeploymentStatus
	Sizes  map[string]*messages.ModelSizes // by deployment; without those whose folder no node has
}

// askTimeout is how long a node may take to read the sizes of a model.
const askTimeout = 5 * time.Second

// Observe asks for the cluster.
func Observe(ctx context.Context, ask top.Ask) (Cluster, error) {
	now, err := top.Observe(ctx, ask)
	if err == nil {
		err = now.Err
	}
	if err != nil {
		return Cluster{}, err
	}
	c := Cluster{Nodes: now.Nodes, Models: now.Models, Sizes: make(map[string]*messages.ModelSizes)}
	for _, m := range now.Models {
		s := m.GetSpec()
		for _, n := range now.Nodes {
			files := &messages.NodeModelResponse{}
			c2, cancel := context.WithTimeout(ctx, askTimeout)
			err := ask(c2, "node."+n.GetMember().GetName()+".model", &messages.NodeModelRequest{Path: s.GetPath(),
				RevisionDigest: s.GetRevisionDigest(), Engine: s.GetEngine().GetKind()}, files)
			cancel()
			if err == nil && files.GetSizes() != nil {
				c.Sizes[s.GetName()] = files.GetSizes()
				break
			}
		}
	}
	return c, nil
}
