package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/messages"
)

// NodeChange is what a watch of nodes tells.
type NodeChange struct {
	Name string
	Spec *messages.NodeSpec // nil: nothing is asked of it any more
	// Synced marks the end of what was stored when the watch began; the other fields are empty. It comes again after a
	// reconnect.
	Synced bool
}

// PutNode stores what is asked of a node.
func (s *Store) PutNode(ctx context.Context, spec *messages.NodeSpec) error {
	return s.put(ctx, nodes+spec.GetName(), spec)
}

// Node returns what is asked of a node: of one that was never spoken of, nothing.
func (s *Store) Node(ctx context.Context, name string) (*messages.NodeSpec, error) {
	e, err := s.kv.Get(ctx, nodes+name)
	if isMissing(err) {
		return &messages.NodeSpec{Name: name}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	return decodeNode(e)
}

// WatchNodes gives what is asked of every node to apply, then Synced, then each change, until ctx ends or the store is lost.
func (s *Store) WatchNodes(ctx context.Context, apply func(NodeChange)) error {
	return s.watch(ctx, nodes, func(e jetstream.KeyValueEntry) {
		switch {
		case e == nil:
			apply(NodeChange{Synced: true})
		case e.Operation() != jetstream.KeyValuePut:
			apply(NodeChange{Name: strings.TrimPrefix(e.Key(), nodes)})
		default:
			spec, err := decodeNode(e)
			if err != nil {
				s.log.Error().Err(err).Msg("stored node passed over")
				return
			}
			apply(NodeChange{Name: spec.GetName(), Spec: spec})
		}
	})
}

func decodeNode(e jetstream.KeyValueEntry) (*messages.NodeSpec, error) {
	spec := &messages.NodeSpec{}
	if err := decodeEntry(e, spec); err != nil {
		return nil, err
	}
	if name := strings.TrimPrefix(e.Key(), nodes); spec.GetName() != name {
		return nil, fmt.Errorf("key %s holds a node named %q", e.Key(), spec.GetName())
	}
	return spec, nil
}
