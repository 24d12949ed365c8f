package top

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// Ask sends a request to an endpoint of the control service ("nodes.list") and reads the answer.
type Ask func(ctx context.Context, endpoint string, request, answer proto.Message) error

// Sample is the state of the cluster at one moment.
type Sample struct {
	Time   time.Time
	Nodes  []*messages.NodeStatus
	Models []*messages.DeploymentStatus
	Store  *messages.Refused // why changes are refused; nil: changes are accepted
	Err    error             // why a part is missing
}

// Observe requests a sample. It fails only if all requests fail.
func Observe(ctx context.Context, ask Ask) (Sample, error) {
	var nodes messages.ListNodesResponse
	var models messages.ListModelsResponse
	var errs [2]error
	var asked sync.WaitGroup
	asked.Go(func() { errs[0] = ask(ctx, "nodes.list", &messages.ListNodesRequest{}, &nodes) })
	asked.Go(func() { errs[1] = ask(ctx, "models.list", &messages.ListModelsRequest{}, &models) })
	asked.Wait()
	if errs[0] != nil && errs[1] != nil {
		return Sample{}, errs[0]
	}
	return Sample{
		Time: time.Now(), Nodes: nodes.GetNodes(), Models: models.GetModels(), Store: nodes.GetStore(),
		Err: errors.Join(errs[:]...),
	}, nil
}

// Rate is in tokens per second.
type Rate struct {
	In  float64 `json:"in"`
	Out float64 `json:"out"`
}

// counters are implemented by nodes and replicas.
type counters interface {
	GetTokensIn() uint64
	GetTokensOut() uint64
}

// rates holds the rates of nodes and replicas by name.
type rates struct{ nodes, replicas map[string]Rate }

// ratesBetween returns the rates between two samples, for names that are in both.
func ratesBetween(before, after Sample) rates {
	seconds := after.Time.Sub(before.Time).Seconds()
	r := rates{map[string]Rate{}, map[string]Rate{}}
	if seconds <= 0 {
		return r
	}
	computeRates(r.nodes, seconds, nodesOf(before), nodesOf(after))
	computeRates(r.replicas, seconds, replicasOf(before), replicasOf(after))
	return r
}

func computeRates(into map[string]Rate, seconds float64, before, after map[string]counters) {
	for name, now := range after {
		if then, ok := before[name]; ok {
			into[name] = Rate{
				In:  increase(then.GetTokensIn(), now.GetTokensIn()) / seconds,
				Out: increase(then.GetTokensOut(), now.GetTokensOut()) / seconds,
			}
		}
	}
}

// increase returns by how much a counter increased. A counter that is smaller than before was reset
// to 0.
func increase(before, after uint64) float64 {
	if after < before {
		return float64(after)
	}
	return float64(after - before)
}

func nodesOf(s Sample) map[string]counters {
	all := map[string]counters{}
	for _, n := range s.Nodes {
		if n.GetUnreachable() == "" {
			all[n.GetMember().GetName()] = n
		}
	}
	return all
}

func replicasOf(s Sample) map[string]counters {
	all := map[string]counters{}
	for _, d := range s.Models {
		for _, r := range d.GetReplicas() {
			all[r.GetName()] = r
		}
	}
	return all
}

// qualifiedName returns the cluster-wide name of a GPU or a tier.
func qualifiedName(node, gpu string) string {
	if node == "" {
		return gpu
	}
	return fmt.Sprintf("%s/%s", node, gpu)
}
