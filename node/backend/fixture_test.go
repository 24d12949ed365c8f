package backend

import (
	"context"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/cluster/store"
	"troupe/messages"
)

// system returns an actor system with an actor for each ID. The actor answers with the result of
// its function, or not at all if the result is nil.
func system(t *testing.T, answers map[string]func(asked any) proto.Message) *actor.ActorSystem {
	t.Helper()
	sys := actor.NewActorSystem()
	t.Cleanup(sys.Shutdown)
	for id, answer := range answers {
		_, err := sys.Root.SpawnNamed(actor.PropsFromFunc(func(c actor.Context) {
			if asked, ok := c.Message().(proto.Message); ok {
				if m := answer(asked); m != nil {
					c.Respond(m)
				}
			}
		}), id)
		if err != nil {
			t.Fatal(err)
		}
	}
	return sys
}

// cluster returns the answer of a router that knows a cluster.
func cluster(view *messages.ClusterView) func(any) proto.Message {
	return func(asked any) proto.Message {
		switch asked.(type) {
		case *messages.GetClusterView:
			return view
		case *messages.GetExplanation:
			return &messages.Explanation{Decisions: []*messages.RouteDecision{{}}}
		}
		return nil
	}
}

// one returns a function that returns the members of a cluster with one node.
func one(sys *actor.ActorSystem) func() []*messages.Member {
	return func() []*messages.Member {
		return []*messages.Member{{Name: "a", Address: sys.Address(), Gpus: []string{"gpu-0"}}}
	}
}

// deployed is a store that holds one deployment. It holds no adapter until one is put.
type deployed struct {
	spec     *messages.DeploymentSpec // nil: none
	at       uint64
	conflict int // number of puts that fail because another writer was faster
	adapter  *messages.AdapterSpec
}

func (d *deployed) Get(_ context.Context, name string) (*messages.DeploymentSpec, uint64, error) {
	if d.spec.GetName() != name {
		return nil, 0, store.ErrNotFound
	}
	return proto.CloneOf(d.spec), d.at, nil
}

func (d *deployed) Put(_ context.Context, spec *messages.DeploymentSpec, over uint64) (uint64, error) {
	if d.conflict > 0 || over != d.at {
		d.conflict--
		return 0, store.ErrConflict
	}
	d.spec, d.at = spec, d.at+1
	return d.at, nil
}

func (d *deployed) Delete(_ context.Context, name string, drop bool) error {
	if d.spec.GetName() != name {
		return store.ErrNotFound
	}
	d.spec = nil
	return nil
}

func (d *deployed) Adapter(context.Context, string, string) (*messages.AdapterSpec, uint64, error) {
	if d.adapter == nil {
		return nil, 0, store.ErrNotFound
	}
	return proto.CloneOf(d.adapter), d.adapter.GetRevision(), nil
}

func (d *deployed) PutAdapter(_ context.Context, spec *messages.AdapterSpec, at uint64) (*messages.AdapterSpec, error) {
	d.adapter = proto.CloneOf(spec)
	d.adapter.Revision = at + 1
	return d.adapter, nil
}

func (d *deployed) DeleteAdapter(context.Context, string, string, uint64) error {
	d.adapter = nil
	return nil
}

// events records the kinds of published events.
type events []string

func (e *events) publish(kind, _, _ string) { *e = append(*e, kind) }
