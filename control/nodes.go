package control

import (
	"context"

	"troupe/messages"
	"troupe/observe/tree"
)

// nodeSubject is the prefix of the subjects that a single node answers.
const nodeSubject = "troupe.v1.node."

const releaseEndpoint = "gpus-release"

func (c *control) nodeEndpoints(life context.Context) []Endpoint {
	own := "node." + c.Node
	return []Endpoint{
		serve(c, life, "nodes-list", "nodes.list", "all nodes and what runs on them", c.listNodes),
		serve(c, life, "nodes-drain", "nodes.drain",
			`drain a node, so that it can be stopped: {"name": "`+c.Node+`"}`, c.drainNode),
		serve(c, life, "nodes-undrain", "nodes.undrain",
			`let a drained node be used again: {"name": "`+c.Node+`"}`, c.undrainNode),
		serve(c, life, "gpus-list", "gpus.list", "all GPUs, their memory and its owners", c.listGpus),
		serve(c, life, "gpus-quarantine", "gpus.quarantine",
			`stop using a GPU: {"node": "`+c.Node+`", "name": "gpu-0", "detail": "why"}`, c.quarantineGpu),
		serve(c, life, releaseEndpoint, "gpus.release",
			`use a GPU again after a self-test: {"node": "`+c.Node+`", "name": "gpu-0"}, also "untested"`,
			c.releaseGpu),
		serve(c, life, "gpus-evict", "gpus.evict", "free weights on a GPU that no replica uses", c.evictWeights),
		serve(c, life, switchEndpoint, "gpus.switch",
			`let a model serve on a GPU instead of others: {"node": "`+c.Node+`", "name": "gpu-0", "to": "kjv"}`,
			c.switchGpu),
		serve(c, life, "capacity-report", "capacity.report",
			`the devices that models hold and use, and what is wasted: {"price": 2.5}`, c.capacityReport),
		serve(c, life, "keys-list", "keys.list",
			"API keys by name, with their limits and their usage in the cluster", c.listKeys),
		serve(c, life, "tree", "tree",
			`the supervision tree: {"format": "text", "node": "`+c.Node+`"}`, c.tree),
		serve(c, life, "node-status", own+".status", "the status of this node only", c.nodeStatus),
		serve(c, life, "node-model", own+".model", "a model's folder as this node sees it", c.nodeModel),
		serve(c, life, "node-adapters", own+".adapters", "what adapters were used for on this node only",
			c.nodeAdapters),
		serve(c, life, "node-record", own+".record", "what this node records, for troupe record", c.record),
		serve(c, life, "node-tree", own+".tree", "the supervision tree of this node only", c.nodeTree),
	}
}

func (c *control) listNodes(ctx context.Context, _ *messages.ListNodesRequest) (*messages.ListNodesResponse, error) {
	return &messages.ListNodesResponse{Nodes: c.view.Nodes(ctx), Store: c.Backend.StoreProblem()}, nil
}

func (c *control) listKeys(ctx context.Context, _ *messages.ListKeysRequest) (*messages.ListKeysResponse, error) {
	keys, err := c.Backend.Keys(ctx)
	return &messages.ListKeysResponse{Keys: keys}, err
}

func (c *control) drainNode(ctx context.Context, req *messages.DrainNodeRequest) (*messages.DrainNodeResponse, error) {
	node, err := c.setDraining(ctx, req, true)
	return &messages.DrainNodeResponse{Node: node}, err
}

func (c *control) undrainNode(
	ctx context.Context,
	req *messages.UndrainNodeRequest,
) (*messages.UndrainNodeResponse, error) {
	node, err := c.setDraining(ctx, req, false)
	return &messages.UndrainNodeResponse{Node: node}, err
}

// setDraining returns the node's own status with the new decision in it, which may not have reached
// the node yet.
func (c *control) setDraining(
	ctx context.Context,
	req interface{ GetName() string },
	draining bool,
) (*messages.NodeStatus, error) {
	if err := requireName(req); err != nil {
		return nil, err
	}
	decided, err := c.Backend.DrainNode(ctx, req.GetName(), draining)
	if err != nil {
		return nil, err
	}
	node := c.view.node(ctx, decided.GetMember())
	if node.GetDraining() != draining {
		node.Draining, node.Detail = draining, decided.GetDetail()
	}
	return node, nil
}

func (c *control) listGpus(ctx context.Context, _ *messages.ListGpusRequest) (*messages.ListGpusResponse, error) {
	return &messages.ListGpusResponse{Gpus: c.view.Gpus(ctx)}, nil
}

func (c *control) quarantineGpu(
	ctx context.Context,
	req *messages.QuarantineGpuRequest,
) (*messages.QuarantineGpuResponse, error) {
	if err := requireGpu(req); err != nil {
		return nil, err
	}
	gpu, err := c.Backend.QuarantineGpu(ctx, req)
	return &messages.QuarantineGpuResponse{Gpu: gpu}, err
}

func (c *control) releaseGpu(
	ctx context.Context,
	req *messages.ReleaseGpuRequest,
) (*messages.ReleaseGpuResponse, error) {
	if err := requireGpu(req); err != nil {
		return nil, err
	}
	gpu, err := c.Backend.ReleaseGpu(ctx, req)
	return &messages.ReleaseGpuResponse{Gpu: gpu}, err
}

func (c *control) evictWeights(
	ctx context.Context,
	req *messages.EvictWeightsRequest,
) (*messages.EvictWeightsResponse, error) {
	if err := requireGpu(req); err != nil {
		return nil, err
	}
	gpu, err := c.Backend.EvictWeights(ctx, req)
	return &messages.EvictWeightsResponse{Gpu: gpu}, err
}

// requireGpu refuses a request without the node or the name of a GPU.
func requireGpu(req interface {
	GetName() string
	GetNode() string
}) error {
	if req.GetName() == "" || req.GetNode() == "" {
		return Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
			`node or name is missing; send {"node": "…", "name": "gpu-0"}, as listed by gpus.list`)
	}
	return nil
}

func (c *control) tree(ctx context.Context, req *messages.TreeRequest) (*messages.TreeResponse, error) {
	format := req.GetFormat()
	roots, err := c.view.Tree(ctx, req.GetNode(), format == "" || format == "json")
	if err != nil {
		return nil, err
	}
	switch format {
	case "", "json":
		return &messages.TreeResponse{Roots: roots}, nil
	case "text":
		return &messages.TreeResponse{Text: tree.Text(roots)}, nil
	case "dot":
		return &messages.TreeResponse{Text: tree.DOT(roots)}, nil
	}
	return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT, "unknown format "+format+"; use json, text or dot")
}

func (c *control) nodeStatus(ctx context.Context, _ *messages.NodeStatusRequest) (*messages.NodeStatusResponse, error) {
	node, err := c.Backend.NodeStatus(ctx)
	return &messages.NodeStatusResponse{Node: node}, err
}

func (c *control) nodeTree(
	ctx context.Context,
	req *messages.NodeTreeRequest,
) (*messages.NodeTreeResponse, error) {
	return &messages.NodeTreeResponse{Root: c.view.localTree(ctx, req.GetWhole())}, nil
}
