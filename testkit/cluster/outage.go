package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/messages"
)

// Outages are the measurements of one kind of fault, in ascending order.
type Outages struct {
	Detection []time.Duration // time from the fault until the node is no longer a member, one per round
	Pauses    []time.Duration // longest pause of every stream that was open at the fault
}

// Measure injects a fault into a node, waits for the recovery and undoes the fault, in each round.
// The load runs through the gateways of other nodes. Every stream must be exact.
func (c *Cluster) Measure(ctx context.Context, load Load, fault Fault, rounds int) (Outages, error) {
	var o Outages
	load.Repeat = true
	for round := range rounds {
		detection, report, err := c.measureOnce(ctx, load, fault)
		if err != nil {
			return o, fmt.Errorf("%s, round %d: %w", fault, round+1, err)
		}
		o.Detection, o.Pauses = append(o.Detection, detection), append(o.Pauses, report.Affected...)
	}
	slices.Sort(o.Detection)
	slices.Sort(o.Pauses)
	return o, nil
}

func (c *Cluster) measureOnce(
	ctx context.Context, load Load, fault Fault,
) (detection time.Duration, report Report, err error) {
	if err := c.ensureReplicaOn(ctx, fault.On); err != nil {
		return 0, report, err
	}
	ctx, cancel := context.WithCancel(ctx) // ends the streams if the round fails
	defer cancel()
	run := load.Start(ctx)
	if err := run.WaitStreaming(ctx); err != nil {
		return 0, report, err
	}
	kv, err := c.membersKV(ctx)
	if err != nil {
		return 0, report, err
	}
	run.MarkOpen()
	began := time.Now()
	undo, err := c.Inject(ctx, fault)
	if err != nil {
		return 0, report, err
	}
	if err := waitNotMember(ctx, kv, fault.On); err != nil {
		return 0, report, err
	}
	detection = time.Since(began)
	for _, step := range []func(context.Context) error{run.WaitMarked, undo, c.WaitRecovered} {
		if err := step(ctx); err != nil {
			return 0, report, err
		}
	}
	report = run.Finish()
	return detection, report, report.Err()
}

// ensureReplicaOn makes sure that a node has a replica. Replicas that were placed while the node
// was away stay elsewhere, so the model is deployed again, which spreads its replicas.
func (c *Cluster) ensureReplicaOn(ctx context.Context, node string) error {
	if err := c.WaitRecovered(ctx); err != nil {
		return err
	}
	d, err := c.Model(ctx, ModelName)
	if err != nil {
		return err
	}
	if hasReplicaOn(d, node) {
		return nil
	}
	req := &messages.DeleteModelRequest{Name: ModelName}
	if err := c.Call(ctx, "models.delete", req, &messages.DeleteModelResponse{}); err != nil {
		return err
	}
	if err := Until(ctx, func() error { return c.allReleased(ctx) }); err != nil {
		return err
	}
	if err := c.Deploy(ctx, d.GetSpec()); err != nil {
		return err
	}
	return Until(ctx, func() error { // any node may answer, and may lag behind
		d, err := c.Model(ctx, ModelName)
		if err == nil && !hasReplicaOn(d, node) {
			err = fmt.Errorf("%s has none of %d replicas", node, len(d.GetReplicas()))
		}
		return err
	})
}

// allReleased returns an error if a GPU has leases of replicas. A deleted model is no longer listed while its
// replicas finish.
func (c *Cluster) allReleased(ctx context.Context) error {
	res := &messages.ListGpusResponse{}
	if err := c.Call(ctx, "gpus.list", &messages.ListGpusRequest{}, res); err != nil {
		return err
	}
	for _, g := range res.GetGpus() {
		for _, l := range g.GetLeases() {
			if l.GetKind() != "weights" { // they outlive replicas
				return fmt.Errorf("%s/%s has a lease of %s", g.GetNode(), g.GetName(), l.GetOwner())
			}
		}
	}
	return nil
}

func hasReplicaOn(d *messages.DeploymentStatus, node string) bool {
	return slices.ContainsFunc(d.GetReplicas(), func(r *messages.ReplicaStatus) bool { return r.GetNode() == node })
}

// membersBucket has a key members.<name> for every member.
const membersBucket = "troupe-members"

// lookupTimeout bounds one read of the bucket. A stopped server never answers.
const lookupTimeout = TimeScale * 50 * time.Millisecond

// Leader returns the node whose embedded server leads the members bucket. The NATS servers must be
// routed.
func (c *Cluster) Leader(ctx context.Context) (leader *Node, err error) {
	conn, err := c.NATS()
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	err = Until(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		stream, err := js.Stream(ctx, "KV_"+membersBucket)
		if err != nil {
			return err
		}
		name := stream.CachedInfo().Cluster.Leader
		if i := slices.IndexFunc(c.Nodes, func(n *Node) bool { return n.Name == name }); i >= 0 {
			leader = c.Nodes[i]
			return nil
		}
		return fmt.Errorf("the leader of bucket %s is %q, which is not a node", membersBucket, name)
	})
	return leader, err
}

// membersKV opens the members bucket.
func (c *Cluster) membersKV(ctx context.Context) (jetstream.KeyValue, error) {
	conn, err := c.NATS()
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	kv, err := js.KeyValue(ctx, membersBucket)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", membersBucket, err)
	}
	return kv, nil
}

// waitNotMember waits until a node is no longer a member.
func waitNotMember(ctx context.Context, kv jetstream.KeyValue, name string) error {
	return Until(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		_, err := kv.Get(ctx, "members."+name)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
			return nil
		case err == nil:
			return fmt.Errorf("%s is still a member", name)
		}
		return err
	})
}
