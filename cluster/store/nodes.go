package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/messages"
)

// NodeChange is a change that WatchNodes delivers.
type NodeChange struct {
	Name string
	Spec *messages.NodeSpec // nil if the key was deleted
	// Synced marks the end of the values stored when the watch began. The other fields are empty
	// then. It is delivered again after a reconnect.
	Synced bool
}

// PutNode stores the specification of a node.
func (s *Store) PutNode(ctx context.Context, spec *messages.NodeSpec) error {
	return s.put(ctx, nodes+spec.GetName(), spec)
}

// Node returns the specification of a node, or an empty one if none is stored.
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

// WatchNodes calls apply with the specification of every node, then with Synced, then with each
// change. It returns when ctx ends or the store is lost.
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
				s.log.Error().Err(err).Msg("stored node skipped")
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
		return nil, fmt.Errorf("key %s stores a node named %q", e.Key(), spec.GetName())
	}
	return spec, nil
}
