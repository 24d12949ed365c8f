package control

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/messages"
)

// Backend answers for the cluster, and for the node it is on. Its errors are Refusals where the reason is known.
type Backend interface {
	// Model reads a model's headers on this node alone and says what is wrong with them, or that the folder is
	// missing, and the digests of its files where they are known.
	Model(path string) (*messages.NodeModelResponse, error)
	// Update stores what change makes of the stored deployment, which is nil where there is none. Where the deployment was
	// changed meanwhile, change is called again. With ifRevision not 0 the stored revision must be that one.
	Update(ctx context.Context, name string, ifRevision uint64, change Change) (Updated, error)
	// Revise decides which files a deployment is to have that replaces the stored one, which may be nil. The
	// deployment has the digests of its files where they are known.
	Revise(spec, stored *messages.DeploymentSpec)
	DeleteDeployment(ctx context.Context, name string) error
	Deployments(ctx context.Context) ([]*messages.DeploymentStatus, error)
	Deployment(ctx context.Context, name string) (*messages.DeploymentStatus, error)
	RestartReplica(ctx context.Context, name string) error
	Migrate(ctx context.Context, req *messages.MigrateReplicaRequest) (*messages.MigrateReplicaResponse, error)
	Explain(ctx context.Context, requestID string) (*messages.ExplainResponse, error)
	// DrainNode stores whether a node is to be empty, and returns how far it is.
	DrainNode(ctx context.Context, name string, draining bool) (*messages.NodeStatus, error)

	// RegisterAdapter checks an adapter with NormalizeAdapter and against its base model, stores it, and returns what is stored.
	RegisterAdapter(ctx context.Context, req *messages.RegisterAdapterRequest) (*messages.AdapterSpec, error)
	// Adapter, PinAdapter and DeleteAdapter name one "<adapter>" or "<model>:<adapter>".
	Adapter(name string) (*messages.AdapterSpec, error)
	PinAdapter(ctx context.Context, name string, pinned bool) (*messages.AdapterSpec, error)
	DeleteAdapter(ctx context.Context, name string) (*messages.AdapterSpec, error)
	// Adapters are those of a model, or all, in the order of model and name.
	Adapters(model string) []*messages.AdapterSpec
	AdapterStats(ctx context.Context, model string) (*messages.AdapterStatsResponse, error)

	// QuarantineGpu and ReleaseGpu ask a GPU of any node.
	QuarantineGpu(ctx context.Context, req *messages.QuarantineGpuRequest) (*messages.GpuStatus, error)
	ReleaseGpu(ctx context.Context, req *messages.ReleaseGpuRequest) (*messages.GpuStatus, error)

	// Prefix is how prompts of a model begin, in tokens, which it checks where they are given; blockTokens is how many of them are a block.
	Prefix(ctx context.Context, of *messages.KvPinRequest) (tokens []uint32, blockTokens int, err error)
	Pin(ctx context.Context, pin *messages.PinnedPrefix) error
	Unpin(ctx context.Context, name string) error
	Pins() []*messages.PinnedPrefix
	// KV carries a request out on this node alone.
	KV(ctx context.Context, req *messages.KvNodeRequest) (*messages.KvNodeResponse, error)

	// Keys are the API keys, without their secrets, and what they use in the cluster.
	Keys(ctx context.Context) ([]*messages.KeyStatus, error)

	// Members are the nodes of the cluster as this one knows them, itself among them.
	Members() []*messages.Member
	// Departed are the nodes that were lost, or left, not long ago.
	Departed() []*messages.NodeStatus
	// LastSeen returns when the membership of a node was renewed last, nil where that is not known.
	LastSeen(node string) *timestamppb.Timestamp
	// StoreProblem returns why changes of the store are refused now; nil: they are taken. It asks no other node.
	StoreProblem() *messages.Refused
	// NodeStatus is this node alone.
	NodeStatus(ctx context.Context) (*messages.NodeStatus, error)
	// Tree are this node's actors that have no parent.
	Tree() []*messages.ActorNode
}

// Change makes a deployment of the stored one.
type Change func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error)

// Updated is a change of a deployment that was stored.
type Updated struct {
	Before, After *messages.DeploymentSpec // Before is nil for a new deployment
	Revision      uint64                   // of After
}

// Refusal is an error with a reason.
type Refusal struct{ *messages.Refused }

func (r Refusal) Error() string { return r.GetDetail() }

// Refuse returns an error with a reason.
func Refuse(reason messages.Reason, detail string) error {
	return Refusal{&messages.Refused{Reason: reason, Detail: detail}}
}

// reasonOf returns the reason of an error.
func reasonOf(err error) messages.Reason {
	var r interface{ GetReason() messages.Reason }
	switch {
	case errors.As(err, &r):
		return r.GetReason()
	case errors.Is(err, context.DeadlineExceeded):
		return messages.Reason_REASON_DEADLINE
	}
	return messages.Reason_REASON_INTERNAL
}
