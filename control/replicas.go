package control

import (
	"context"
	"strings"
	"time"

	"troupe/actors/supervise"
	"troupe/messages"
)

const (
	migrateEndpoint = "replicas-migrate"
	// explainSubject precedes the request ID in the subjects of explain requests.
	explainSubject = "troupe.v1.explain."
)

func (c *control) replicaEndpoints(life context.Context) []Endpoint {
	return []Endpoint{
		serve(c, life, "replicas-list", "replicas.list",
			`all replicas, or those of one model: {"model": "kjv"}`, c.listReplicas),
		serve(c, life, "replicas-restart", "replicas.restart",
			`restart a replica without losing streams: {"name": "kjv-0"}`, c.restartReplica),
		serve(c, life, migrateEndpoint, "replicas.migrate",
			`migrate running sequences: {"from": "kjv-0"}, also "to", "request_ids"`, c.migrate),
		serve(c, life, preemptEndpoint, "replicas.preempt",
			`take a replica away; its streams continue elsewhere or wait: {"name": "kjv-0"}, also "deadline": "30s", `+
				`"drop", "park", "force"`, c.preemptReplica),
		serve(c, life, "explain", "explain.>",
			"how a request was routed: troupe.v1.explain.<request_id>", c.explain),
	}
}

const (
	migrateTimeout = time.Minute // long enough to copy the blocks of the sequences
	releaseTimeout = 30 * time.Second
)

// timeout returns how long a request to an endpoint may take.
func (c *control) timeout(endpoint string) time.Duration {
	switch endpoint {
	case migrateEndpoint:
		return max(migrateTimeout, c.Timeout)
	case preemptEndpoint:
		return maxPreemptDeadline + preemptTimeout
	case kvOffloadEndpoint, kvRestoreEndpoint, kvNodeEndpoint:
		return max(kvTimeout, c.Timeout)
	case switchEndpoint:
		return max(switchTimeout+undoTimeout, c.Timeout)
	case releaseEndpoint:
		return max(releaseTimeout, c.Timeout)
	}
	return c.Timeout
}

func (c *control) listReplicas(
	ctx context.Context,
	req *messages.ListReplicasRequest,
) (*messages.ListReplicasResponse, error) {
	all, err := c.Backend.Deployments(ctx)
	res := &messages.ListReplicasResponse{}
	for _, d := range all {
		if req.GetModel() == "" || d.GetSpec().GetName() == req.GetModel() {
			res.Replicas = append(res.Replicas, d.GetReplicas()...)
		}
	}
	return res, err
}

func (c *control) restartReplica(
	ctx context.Context,
	req *messages.RestartReplicaRequest,
) (*messages.RestartReplicaResponse, error) {
	if err := requireName(req); err != nil {
		return nil, err
	}
	return &messages.RestartReplicaResponse{Name: req.GetName()}, c.Backend.RestartReplica(ctx, req.GetName())
}

func (c *control) migrate(
	ctx context.Context,
	req *messages.MigrateReplicaRequest,
) (*messages.MigrateReplicaResponse, error) {
	switch req.GetFrom() {
	case "":
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
			`from is missing; send {"from": "…"}, the replica to migrate sequences from`)
	case req.GetTo():
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
			"from and to are both "+req.GetTo()+"; name two replicas, or leave to out")
	}
	if err := checkHold(req.GetHold()); err != nil {
		return nil, err
	}
	hold := HoldBy(ctx, "replicas.migrate", req.GetHold(), supervise.OrSystem(c.Runtime).Now())
	done, err := c.Backend.Migrate(ctx, req)
	if err == nil && req.GetHold() != nil {
		err = c.holdMigrated(ctx, req.GetFrom(), hold)
	}
	return done, err
}

// explain returns how a request was routed. It also accepts the prefixed IDs that users see in
// answers and in the actor tree.
func (c *control) explain(ctx context.Context, req *messages.ExplainRequest) (*messages.ExplainResponse, error) {
	id := req.GetRequestId()
	for _, prefix := range []string{"chatcmpl-", "cmpl-", "session-"} {
		id = strings.TrimPrefix(id, prefix)
	}
	return c.Backend.Explain(ctx, id)
}
