package identity_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/testkit/cluster"
)

// switchLimit is more than the minute in which replicas have to leave. A node that is killed does not
// answer.
const (
	switchLimit = 80 * time.Second
	callLimit   = 5 * time.Second
)

// group is a cluster with models of which only some fit its devices, and its operator.
type group struct {
	*cluster.Cluster
	t          *testing.T
	random     *rand.Rand
	all        []model
	operations sync.WaitGroup

	mu     sync.Mutex
	done   map[string]int // what the operator did, and what was refused
	events map[string]int
}

func newRandom(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(*seed, stream)) }

func (g *group) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// deploy deploys all models. Requests wake every other one, and the last of these goes to sleep again
// when it is idle. Only the operator brings back the others.
func (g *group) deploy(ctx context.Context) {
	g.t.Helper()
	for i, m := range g.all {
		spec := &messages.DeploymentSpec{Name: m.name, Path: m.path, MaxSequences: new(uint32(maxSequences)),
			Replicas: new(uint32(1)), MaxReplicas: new(uint32(1))}
		if i%2 == 0 {
			spec.Replicas, spec.MinReplicas = new(uint32(0)), new(uint32(0))
		}
		if i == len(g.all)-2 {
			spec.IdleAfter = new(uint32(3))
		}
		g.must(cluster.Until(ctx, func() error {
			return g.Call(ctx, "models.deploy", &messages.DeployModelRequest{Deployment: spec},
				&messages.DeployModelResponse{})
		}))
	}
}

// sleeps reports whether requests wake a model.
func sleeps(d *messages.DeploymentStatus) bool { return d.GetSpec().GetMinReplicas() == 0 }

// operation is something that an operator does.
type operation struct {
	name string
	// call returns the call for one of the models, chosen at random, or "" if it fits none.
	call func(*group, []*messages.DeploymentStatus) (subject string, req, res proto.Message)
}

// operations are chosen at random. Those that are named several times are more likely.
var operations = []operation{
	{"switch", (*group).switchGPU}, {"switch", (*group).switchGPU}, {"park", (*group).park},
	{"park", (*group).park}, {"standby", (*group).standby}, {"sleep", (*group).sleep},
	{"activate", (*group).activate}, {"activate", (*group).activate}, {"activate", (*group).activate},
}

// operate does something at random. It does not wait until that is done, since the sequences that run
// may finish first.
func (g *group) operate(ctx context.Context) {
	list := &messages.ListModelsResponse{}
	if err := g.Call(ctx, "models.list", &messages.ListModelsRequest{}, list); err != nil {
		g.note("list", err)
		return
	}
	for _, i := range g.random.Perm(len(operations)) {
		do := operations[i]
		if subject, req, res := do.call(g, list.GetModels()); subject != "" {
			limit := callLimit
			if do.name == "switch" {
				limit = switchLimit
			}
			g.operations.Go(func() {
				began := time.Now()
				if err := g.CallWithin(ctx, limit, subject, req, res); err != nil {
					g.note(do.name, fmt.Errorf("%s, after %s: %w", began.Format(time.TimeOnly), time.Since(began), err))
					return
				}
				g.note(do.name, nil)
			})
			return
		}
	}
}

// note counts what was done, and the reasons for what was not.
func (g *group) note(what string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.t.Logf("%s: %v", what, err)
		what += " in vain"
	}
	g.done[what]++
}

// one returns the name of a random model for which ok holds, or "".
func (g *group) one(all []*messages.DeploymentStatus, ok func(*messages.DeploymentStatus) bool) string {
	fit := slices.DeleteFunc(slices.Clone(all), func(d *messages.DeploymentStatus) bool { return !ok(d) })
	if len(fit) == 0 {
		return ""
	}
	return fit[g.random.IntN(len(fit))].GetSpec().GetName()
}

// serves reports whether a replica of a model serves.
func serves(d *messages.DeploymentStatus) bool {
	return slices.ContainsFunc(d.GetReplicas(), func(r *messages.ReplicaStatus) bool {
		return r.GetState() == messages.ReplicaState_REPLICA_STATE_SERVING
	})
}

// switchGPU switches a GPU to a model that has a replica there.
func (g *group) switchGPU(all []*messages.DeploymentStatus) (subject string, req, res proto.Message) {
	var choices []*messages.SwitchGpuRequest
	for _, d := range all {
		for _, r := range d.GetReplicas() {
			if r.GetLevel() == messages.Level_LEVEL_ACTIVE || r.GetLevel() == messages.Level_LEVEL_STANDBY {
				choices = append(choices,
					&messages.SwitchGpuRequest{Node: r.GetNode(), Name: r.GetGpu(), To: d.GetSpec().GetName()})
			}
		}
	}
	if len(choices) == 0 {
		return "", nil, nil
	}
	return "gpus.switch", choices[g.random.IntN(len(choices))], &messages.SwitchGpuResponse{}
}

func (g *group) park(all []*messages.DeploymentStatus) (subject string, req, res proto.Message) {
	if name := g.one(all, serves); name != "" {
		return "models.park", &messages.ParkModelRequest{Name: name}, &messages.ParkModelResponse{}
	}
	return "", nil, nil
}

func (g *group) standby(all []*messages.DeploymentStatus) (subject string, req, res proto.Message) {
	if name := g.one(all, serves); name != "" {
		return "models.standby", &messages.StandbyModelRequest{Name: name}, &messages.StandbyModelResponse{}
	}
	return "", nil, nil
}

// activate activates a model that has a level.
func (g *group) activate(all []*messages.DeploymentStatus) (subject string, req, res proto.Message) {
	name := g.one(all, func(d *messages.DeploymentStatus) bool {
		return d.GetSpec().GetLevel() != messages.Level_LEVEL_UNSPECIFIED || len(d.GetSpec().GetReplicaLevels()) > 0
	})
	if name == "" {
		return "", nil, nil
	}
	return "models.activate", &messages.ActivateModelRequest{Name: name}, &messages.ActivateModelResponse{}
}

// sleep puts a model to sleep, and drops its weights or leaves them on the GPU.
func (g *group) sleep(all []*messages.DeploymentStatus) (subject string, req, res proto.Message) {
	name := g.one(all, func(d *messages.DeploymentStatus) bool { return serves(d) && sleeps(d) })
	if name == "" {
		return "", nil, nil
	}
	return "models.scale", &messages.ScaleModelRequest{Name: name, Replicas: new(uint32(0)),
		Drop: g.random.IntN(2) == 0}, &messages.ScaleModelResponse{}
}

// disturb does something every interval, and kills a random node several times, until length is over.
func (g *group) disturb(ctx context.Context, length, interval time.Duration, kills int) error {
	began, killed := time.Now(), 0
	for turn := 1; time.Since(began) < length; turn++ {
		g.operate(ctx)
		if killed < kills && time.Since(began) >= length*time.Duration(killed+1)/time.Duration(kills+1) {
			killed++
			if err := g.kill(ctx); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(began.Add(time.Duration(turn) * interval))):
		}
	}
	if killed < kills {
		return fmt.Errorf("%d kills instead of %d", killed, kills)
	}
	return nil
}

// operateUntil goes on every interval until the load has finished: some requests may wait for room.
func (g *group) operateUntil(ctx context.Context, interval time.Duration, finish func() cluster.Report) cluster.Report {
	finished := make(chan cluster.Report, 1)
	go func() { finished <- finish() }()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case report := <-finished:
			return report
		case <-tick.C:
			g.operate(ctx)
		}
	}
}

// kill kills a random node, does something without it, and starts it again.
func (g *group) kill(ctx context.Context) error {
	node := g.Nodes[g.random.IntN(len(g.Nodes))]
	restart, err := g.Inject(ctx, cluster.Fault{Kind: cluster.Kill, On: node.Name})
	if err != nil {
		return err
	}
	if len(g.Nodes) > 1 {
		g.operate(ctx)
	}
	return restart(ctx)
}

// count counts the events that the cluster publishes.
func (g *group) count() {
	g.t.Helper()
	conn, err := g.NATS()
	g.must(err)
	s, err := conn.Subscribe("troupe.v1.events.>", func(m *nats.Msg) {
		kind, text := strings.TrimPrefix(m.Subject, "troupe.v1.events."), string(m.Data)
		switch {
		case kind == "model.scaled" && strings.Contains(text, "requests wait for it"):
			kind = "model.woken"
		case kind == "weights.loaded":
			kind += regexp.MustCompile(` from [a-z ]+ in `).FindString(text)
		case !slices.Contains([]string{"weights.parked", "weights.cold", "gpu.switched", "gpu.switch_failed"}, kind):
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.events[kind]++
	})
	g.must(err)
	g.t.Cleanup(func() { _ = s.Unsubscribe() })
}
