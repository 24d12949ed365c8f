package cluster

import (
	"context"
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
		detection, report, err := c.outage(ctx, load, fault)
		if err != nil {
			return o, fmt.Errorf("%s, round %d: %w", fault, round+1, err)
		}
		o.Detection, o.Pauses = append(o.Detection, detection), append(o.Pauses, report.Hit...)
	}
	slices.Sort(o.Detection)
	slices.Sort(o.Pauses)
	return o, nil
}

func (c *Cluster) outage(ctx context.Context, load Load, fault Fault) (detection time.Duration, report Report, err error) {
	if err := c.occupy(ctx, fault.On); err != nil {
		return 0, report, err
	}
	ctx, cancel := context.WithCancel(ctx) // ends the streams of a round that fails
	defer cancel()
	run := load.Start(ctx)
	if err := run.Flowing(ctx); err != nil {
		return 0, report, err
	}
	gone, err := c.gone(ctx, fault.On)
	if err != nil {
		return 0, report, err
	}
	run.Mark()
	began := time.Now()
	mend, err := c.Inject(ctx, fault)
	if err != nil {
		return 0, report, err
	}
	select {
	case at := <-gone:
		detection = at.Sub(began)
	case <-ctx.Done():
		return 0, report, fmt.Errorf("%s is still a member: %w", fault.On, ctx.Err())
	}
	for _, step := range []func(context.Context) error{run.Over, mend, c.Recovered} {
		if err := step(ctx); err != nil {
			return 0, report, err
		}
	}
	report = run.Finish()
	return detection, report, report.Err()
}

// occupy makes sure that a node has a replica: what was placed while it was away is elsewhere, and stays there. A new deployment is spread.
func (c *Cluster) occupy(ctx context.Context, node string) error {
	if err := c.Recovered(ctx); err != nil {
		return err
	}
	d, err := c.Model(ctx, ModelName)
	if err != nil {
		return err
	}
	if has(d, node) {
		return nil
	}
	if err := c.Ask(ctx, "models.delete", &messages.DeleteModelRequest{Name: ModelName}, &messages.DeleteModelResponse{}); err != nil {
		return err
	}
	if err := Until(ctx, func() error {
		all, err := c.replicas(ctx)
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("%d replicas of a deleted model", len(all))
		}
		return err
	}); err != nil {
		return err
	}
	if err := c.Deploy(ctx, d.GetSpec()); err != nil {
		return err
	}
	if d, err = c.Model(ctx, ModelName); err == nil && !has(d, node) {
		err = fmt.Errorf("%s got none of %d replicas", node, len(d.GetReplicas()))
	}
	return err
}

func has(d *messages.DeploymentStatus, node string) bool {
	return slices.ContainsFunc(d.GetReplicas(), func(r *messages.ReplicaStatus) bool { return r.GetNode() == node })
}

// membersBucket has a key members.<name> for every member.
const membersBucket = "troupe-members"

// gone tells when a node is no member any more.
func (c *Cluster) gone(ctx context.Context, name string) (<-chan time.Time, error) {
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
	watch, err := kv.Watch(ctx, "members."+name, jetstream.UpdatesOnly())
	if err != nil {
		return nil, fmt.Errorf("watch bucket %s: %w", membersBucket, err)
	}
	at := make(chan time.Time, 1)
	go func() {
		defer func() { _ = watch.Stop() }() // it has done its duty
		for {
			select {
			case entry := <-watch.Updates():
				if entry != nil && entry.Operation() != jetstream.KeyValuePut {
					at <- time.Now()
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return at, nil
}
