package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"troupe/messages"
)

// goroutineSlack is the number of goroutines that a node may gain over its baseline. Connections
// come and go. A supervise.Dispatcher keeps up to 32 workers, as many as were ever busy at once,
// and a node that has just started has about twelve.
const goroutineSlack = 40

// goroutinesPerReplica is the number of streams of a replica's device, each of which is a goroutine
// on cuda/host. Replicas are placed again after a fault, so a node that had none may have two.
const goroutinesPerReplica = 14

// Baseline is the number of goroutines of each idle node by name, without those of its replicas.
type Baseline map[string]int

// MeasureBaseline measures the live nodes after their replicas have all their leases.
func (c *Cluster) MeasureBaseline(ctx context.Context) (Baseline, error) {
	all := Baseline{}
	err := Until(ctx, func() error {
		replicas, err := c.listReplicas(ctx)
		if err != nil {
			return err
		}
		if err := c.checkLeases(ctx, replicas); err != nil {
			return err
		}
		for _, n := range c.LiveNodes() {
			if all[n.Name], err = n.goroutines(ctx, replicas); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// goroutines returns the number of a node's goroutines without those of its replicas.
func (n *Node) goroutines(ctx context.Context, replicas map[string]*messages.ReplicaStatus) (int, error) {
	count, err := n.Gauge(ctx, "go_goroutines")
	for _, r := range replicas {
		if r.GetNode() == n.Name {
			count -= goroutinesPerReplica
		}
	}
	return count, err
}

// WaitClean waits until no node holds resources of finished requests. If ctx ends first, it returns
// what is left. A restarted node is compared with its baseline before the restart.
func (c *Cluster) WaitClean(ctx context.Context, before Baseline) error {
	return Until(ctx, func() error { return c.Leftovers(ctx, before) })
}

// Leftovers returns an error that lists all resources that exist only because of requests.
func (c *Cluster) Leftovers(ctx context.Context, before Baseline) error {
	replicas, err := c.listReplicas(ctx)
	if err != nil {
		return err
	}
	return errors.Join(checkSequences(replicas), c.checkLeases(ctx, replicas), c.checkSessions(ctx),
		c.checkProcesses(ctx, replicas, before))
}

// listReplicas returns all replicas of the cluster by name.
func (c *Cluster) listReplicas(ctx context.Context) (map[string]*messages.ReplicaStatus, error) {
	res := &messages.ListReplicasResponse{}
	if err := c.Call(ctx, "replicas.list", &messages.ListReplicasRequest{}, res); err != nil {
		return nil, err
	}
	all := map[string]*messages.ReplicaStatus{}
	for _, r := range res.GetReplicas() {
		if all[r.GetName()] != nil {
			return nil, fmt.Errorf("two replicas are named %s, on %q and %q", r.GetName(),
				all[r.GetName()].GetNode(), r.GetNode())
		}
		all[r.GetName()] = r
	}
	return all, nil
}

// checkSequences finds running and waiting sequences, and the KV blocks and adapters that they
// hold.
func checkSequences(replicas map[string]*messages.ReplicaStatus) error {
	var found []error
	for name, r := range replicas {
		name += " on " + r.GetNode()
		if r.GetRunning()+r.GetWaiting() > 0 {
			found = append(found, fmt.Errorf("%s runs %d sequences and has %d waiting", name, r.GetRunning(),
				r.GetWaiting()))
		}
		if held := r.GetKvBlocks() - r.GetKvBlocksFree(); held > 0 {
			found = append(found, fmt.Errorf("%s holds %d of %d KV blocks", name, held, r.GetKvBlocks()))
		}
		for _, a := range r.GetAdapters() {
			if a.GetSequences() > 0 || a.GetState() == messages.AdapterState_ADAPTER_STATE_ACTIVE {
				found = append(found, fmt.Errorf("%s has adapter %s in use by %d sequences", name, a.GetName(),
					a.GetSequences()))
			}
		}
	}
	return errors.Join(found...)
}

func (c *Cluster) checkLeases(ctx context.Context, replicas map[string]*messages.ReplicaStatus) error {
	gpus := &messages.ListGpusResponse{}
	if err := c.Call(ctx, "gpus.list", &messages.ListGpusRequest{}, gpus); err != nil {
		return err
	}
	return checkLeases(gpus.GetGpus(), replicas)
}

// checkLeases finds device memory that no live replica owns, and replicas without a lease.
func checkLeases(gpus []*messages.GpuStatus, replicas map[string]*messages.ReplicaStatus) error {
	var found []error
	owners := map[string]bool{}
	for _, gpu := range gpus {
		for _, l := range gpu.GetLeases() {
			if l.GetKind() == "weights" { // they outlive replicas
				continue
			}
			owners[l.GetOwner()] = true
			if r := replicas[l.GetOwner()]; r == nil || r.GetGpu() != gpu.GetName() || r.GetNode() != gpu.GetNode() {
				found = append(found, fmt.Errorf("%s/%s holds %d bytes of %s for %q, which does not exist there",
					gpu.GetNode(), gpu.GetName(), l.GetBytes(), l.GetKind(), l.GetOwner()))
			}
		}
		if len(gpu.GetLeases()) == 0 && gpu.GetFreeBytes() != gpu.GetMemoryBytes() {
			found = append(found, fmt.Errorf("%s/%s has no lease but %d of %d bytes free", gpu.GetNode(),
				gpu.GetName(), gpu.GetFreeBytes(), gpu.GetMemoryBytes()))
		}
	}
	for name := range replicas {
		if !owners[name] {
			found = append(found, fmt.Errorf("%s has no lease", name))
		}
	}
	return errors.Join(found...)
}

// checkSessions finds session actors in the tree of every node.
func (c *Cluster) checkSessions(ctx context.Context) error {
	res := &messages.TreeResponse{}
	if err := c.Call(ctx, "tree", &messages.TreeRequest{}, res); err != nil {
		return err
	}
	var found []error
	var walk func(root string, nodes []*messages.ActorNode)
	walk = func(root string, nodes []*messages.ActorNode) {
		for _, a := range nodes {
			if a.GetKind() == "session" {
				found = append(found, fmt.Errorf("%s: %s is still %s", root, a.GetId(), a.GetState()))
			}
			walk(root, a.GetChildren())
		}
	}
	for _, root := range res.GetRoots() {
		walk(root.GetName(), root.GetChildren())
	}
	return errors.Join(found...)
}

// checkProcesses finds requests in flight and leaked goroutines.
func (c *Cluster) checkProcesses(
	ctx context.Context, replicas map[string]*messages.ReplicaStatus, before Baseline,
) error {
	var found []error
	for _, n := range c.LiveNodes() {
		requests, err := n.Gauge(ctx, "troupe_gateway_requests_in_flight")
		if err == nil && requests > 0 {
			err = fmt.Errorf("%s has %d requests in flight", n.Name, requests)
		}
		count, failed := n.goroutines(ctx, replicas)
		if most := before[n.Name] + goroutineSlack; failed == nil && count > most {
			failed = fmt.Errorf("%s has %d goroutines without those of its replicas, at most %d expected, "+
				"baseline %d", n.Name, count, most, before[n.Name])
		}
		found = append(found, err, failed)
	}
	return errors.Join(found...)
}

// Gauge reads a metric without labels from the node's /metrics.
func (n *Node) Gauge(ctx context.Context, metric string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL("/metrics"), nil)
	if err != nil {
		return 0, err
	}
	res, err := n.HTTP().Do(req)
	if err != nil {
		return 0, fmt.Errorf("metrics of %s: %w", n.Name, err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), metric+" "); ok {
			f, err := strconv.ParseFloat(value, 64)
			return int(f), err
		}
	}
	return 0, fmt.Errorf("metrics of %s lack %s", n.Name, metric)
}
