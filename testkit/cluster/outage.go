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
	Detection []time.Duration // from the fault until the node is no member any more, one per round
	Pauses    []time.Duration // the longest of every stream that was open at the fault
}

// Measure kills or stops a node, round after round, while the load runs through the gateways of others, and mends it. Every stream must be
// exact.
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

func (c *Cluster) measureOnce(ctx context.Context, load Load, fault Fault) (detection time.Duration, report Report, err error) {
	if err := c.ensureReplicaOn(ctx, fault.On); err != nil {
		return 0, report, err
	}
	ctx, cancel := context.WithCancel(ctx) // ends the streams of a round that fails
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
	mend, err := c.Inject(ctx, fault)
	if err != nil {
		return 0, report, err
	}
	if err := waitNotMember(ctx, kv, fault.On); err != nil {
		return 0, report, err
	}
	detection = time.Since(began)
	for _, step := range []func(context.Context) error{run.WaitMarked, mend, c.WaitRecovered} {
		if err := step(ctx); err != nil {
			return 0, report, err
		}
	}
	report = run.Finish()
	return detection, report, report.Err()
}

// occupy makes sure that a node has a replica: what was placed while it was away is elsewhere, and stays there. A new deployment is spread.
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
	if err := c.Call(ctx, "models.delete", &messages.DeleteModelRequest{Name: ModelName}, &messages.DeleteModelResponse{}); err != nil {
		return err
	}
	if err := Until(ctx, func() error { return c.allReleased(ctx) }); err != nil {
		return err
	}
	if err := c.Deploy(ctx, d.GetSpec()); err != nil {
		return err
	}
	return Until(ctx, func() error { // another node answers each time, and knows what it has been told so far
		d, err := c.Model(ctx, ModelName)
		if err == nil && !hasReplicaOn(d, node) {
			err = fmt.Errorf("%s got none of %d replicas", node, len(d.GetReplicas()))
		}
		return err
	})
}

// allReleased says which GPU is still held. A deleted model is not listed any more while its replicas finish.
func (c *Cluster) allReleased(ctx context.Context) error {
	res := &messages.ListGpusResponse{}
	if err := c.Call(ctx, "gpus.list", &messages.ListGpusRequest{}, res); err != nil {
		return err
	}
	for _, g := range res.GetGpus() {
		if n := len(g.GetLeases()); n > 0 {
			return fmt.Errorf("%s/%s has %d leases", g.GetNode(), g.GetName(), n)
		}
	}
	return nil
}

func hasReplicaOn(d *messages.DeploymentStatus, node string) bool {
	return slices.ContainsFunc(d.GetReplicas(), func(r *messages.ReplicaStatus) bool { return r.GetNode() == node })
}

// membersBucket has a key members.<name> for every member.
const membersBucket = "troupe-members"

// lookupTimeout is how long one look at the bucket may take. A server that stands still may be asked, and answers never.
const lookupTimeout = TimeScale * 50 * time.Millisecond

// Leader is the node whose embedded server leads the bucket of members, where the servers are routed to each other.
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
		return fmt.Errorf("bucket %s is led by %q, which is none of the nodes", membersBucket, name)
	})
	return leader, err
}

// bucket opens the bucket of members.
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

// gone waits until a node is no member any more.
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
