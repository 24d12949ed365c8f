package control

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/messages"
)

// Backend answers requests about the cluster and about the node it runs on. Its errors are Refusals
// if the reason is known.
type Backend interface {
	DeploymentBackend
	ReplicaBackend
	AdapterBackend
	GPUBackend
	KVBackend
	KeyBackend
	NodeBackend
	PlannerBackend
}

// DeploymentBackend is the part of Backend for deployments.
type DeploymentBackend interface {
	// Model reads a model's headers on this node only. It returns the digests of the files if they
	// are known, or reports that the folder is missing. An invalid model is an error. If the folder is
	// missing, the digests are those of an image of it, if possible one of the given revision.
	Model(engine, path, revision string) (*messages.NodeModelResponse, error)
	// Stored returns the stored deployment; nil: there is none.
	Stored(ctx context.Context, name string) (*messages.DeploymentSpec, error)
	// Update applies change to the stored deployment, which is nil if there is none, and stores the
	// result. If another writer was faster, it calls change again. If ifRevision is not 0, it must
	// equal the stored revision.
	Update(ctx context.Context, name string, ifRevision uint64, change Change) (Updated, error)
	// Revise decides which revision of its files spec is to serve. spec replaces the stored
	// deployment, which may be nil, and has the digests of its files if they are known.
	Revise(spec, stored *messages.DeploymentSpec)
	DeleteDeployment(ctx context.Context, name string, drop bool) error
	Deployments(ctx context.Context) ([]*messages.DeploymentStatus, error)
	Deployment(ctx context.Context, name string) (*messages.DeploymentStatus, error)
}

// ReplicaBackend is the part of Backend for replicas and the requests that they serve.
type ReplicaBackend interface {
	RestartReplica(ctx context.Context, name string) error
	// Preempt stores the preemption of a replica with the function Preempt, and waits for its end.
	Preempt(ctx context.Context, req *messages.PreemptReplicaRequest) (*messages.PreemptReplicaResponse, error)
	Migrate(ctx context.Context, req *messages.MigrateReplicaRequest) (*messages.MigrateReplicaResponse, error)
	Explain(ctx context.Context, requestID string) (*messages.ExplainResponse, error)
}

// AdapterBackend is the part of Backend for adapters.
type AdapterBackend interface {
	// RegisterAdapter checks an adapter with NormalizeAdapter and against its base model, stores it
	// and returns what it stored.
	RegisterAdapter(ctx context.Context, req *messages.RegisterAdapterRequest) (*messages.AdapterSpec, error)
	// Adapter returns an adapter. Like PinAdapter and DeleteAdapter, it takes "<adapter>" or
	// "<model>:<adapter>".
	Adapter(name string) (*messages.AdapterSpec, error)
	PinAdapter(ctx context.Context, name string, pinned bool) (*messages.AdapterSpec, error)
	DeleteAdapter(ctx context.Context, name string) (*messages.AdapterSpec, error)
	// Adapters returns the adapters of a model, or of all models if model is empty, ordered by
	// model and name.
	Adapters(model string) []*messages.AdapterSpec
	AdapterStats(ctx context.Context, model string) (*messages.AdapterStatsResponse, error)
	// AdapterUses returns what adapters were used for on this node only.
	AdapterUses(req *messages.NodeAdaptersRequest) []*messages.AdapterUse
}

// GPUBackend is the part of Backend for GPUs. It sends each request to a GPU of any node.
type GPUBackend interface {
	QuarantineGpu(ctx context.Context, req *messages.QuarantineGpuRequest) (*messages.GpuStatus, error)
	ReleaseGpu(ctx context.Context, req *messages.ReleaseGpuRequest) (*messages.GpuStatus, error)
	// SwitchGpu begins a switch of a GPU between replicas.
	SwitchGpu(ctx context.Context, at GPU, s *messages.SwitchGpu) error
	// SwitchOf returns the switch in progress, or else the last one; nil if there was none.
	SwitchOf(ctx context.Context, at GPU) (*messages.GpuSwitch, error)
	// OverruleSwitch ends a switch of a GPU because of a level that was stored for one of its replicas.
	OverruleSwitch(ctx context.Context, at GPU, id, replica string) error
	EvictWeights(ctx context.Context, req *messages.EvictWeightsRequest) (*messages.GpuStatus, error)
	// ParkWeights moves weights of a model that no replica uses to the host caches of their nodes. It does
	// not wait.
	ParkWeights(model string)
}

// KVBackend is the part of Backend for KV blocks and pinned prefixes.
type KVBackend interface {
	// Prefix returns the tokens of a prompt's prefix and the number of tokens in a block. If the
	// request contains tokens, Prefix checks them.
	Prefix(ctx context.Context, of *messages.KvPinRequest) (tokens []uint32, blockTokens int, err error)
	Pin(ctx context.Context, pin *messages.PinnedPrefix) error
	Unpin(ctx context.Context, name string) error
	Pins() []*messages.PinnedPrefix
	// KV carries out a request on this node only.
	KV(ctx context.Context, req *messages.KvNodeRequest) (*messages.KvNodeResponse, error)
}

// KeyBackend is the part of Backend for API keys.
type KeyBackend interface {
	// Keys returns the API keys without their secrets, with their usage in the cluster.
	Keys(ctx context.Context) ([]*messages.KeyStatus, error)
}

// NodeBackend is the part of Backend for the nodes of the cluster.
type NodeBackend interface {
	// DrainNode stores the decision to drain a node, or to stop draining it, and returns the node's
	// status.
	DrainNode(ctx context.Context, name string, draining bool) (*messages.NodeStatus, error)
	// Members returns the nodes of the cluster as this node knows them, itself included.
	Members() []*messages.Member
	// Departed returns the nodes that recently left or were lost.
	Departed() []*messages.NodeStatus
	// LastSeen returns the time at which a node's membership was last renewed, or nil if it is
	// unknown.
	LastSeen(node string) *timestamppb.Timestamp
	// StoreProblem returns why the store refuses changes at the moment, or nil if it accepts them.
	// It asks no other node.
	StoreProblem() *messages.Refused
	// NodeStatus returns the status of this node only.
	NodeStatus(ctx context.Context) (*messages.NodeStatus, error)
	// Tree returns the root actors of this node.
	Tree() []*messages.ActorNode
	// Weights returns the weights on the devices of this node, by the names of the GPUs. It leaves out
	// GPUs that do not answer soon.
	Weights(ctx context.Context) map[string][]*messages.GpuWeights
	// Faults returns the faults of the replicas of this node, by name, as far as they are known at once.
	Faults(ctx context.Context) map[string]*messages.ReplicaFault
}

// PlannerBackend is the part of Backend for the planner. The node that leads answers.
type PlannerBackend interface {
	// Planner returns the state of the planner that leads, or of this node's if none leads.
	Planner(ctx context.Context) (*messages.PlannerStatus, error)
	Plan(ctx context.Context, req *messages.GetPlan) (*messages.PlanReport, error)
	ExplainModel(ctx context.Context, req *messages.ExplainModel) (*messages.ModelExplanation, error)
	PlanHistory(ctx context.Context, req *messages.GetPlanHistory) (*messages.PlanHistory, error)
	// PausePlanner stores whether the planner is paused, and returns what was stored before.
	PausePlanner(ctx context.Context, pause *messages.PlannerPause) (before *messages.PlannerPause, err error)
}

// Change returns the deployment that replaces the stored one, which is nil if there is none.
type Change func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error)

// Updated is the result of Backend.Update.
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

// reasonOf returns the reason of an error, or REASON_INTERNAL if it has none.
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

// GPU names a GPU of a node.
type GPU interface {
	GetNode() string
	GetName() string
}
