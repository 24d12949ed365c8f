package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/encoding/protojson"

	"troupe/messages"
)

const nodes = "nodes."

// PutNode stores what is wanted of a node.
func (s *Store) PutNode(ctx context.Context, spec *messages.NodeSpec) error {
	b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(spec)
	if err == nil {
		_, err = s.kv.Put(ctx, nodes+spec.GetName(), b)
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", spec.GetName(), err)
	}
	return nil
}

// Node returns what is wanted of a node. Where nothing is stored, that is nothing in particular.
func (s *Store) Node(ctx context.Context, name string) (*messages.NodeSpec, error) {
	spec := &messages.NodeSpec{Name: name}
	e, err := s.kv.Get(ctx, nodes+name)
	if errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrInvalidKey) {
		return spec, nil
	}
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(e.Value(), spec)
	}
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	return spec, nil
}
