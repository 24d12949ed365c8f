package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

func encode(m proto.Message) ([]byte, error) {
	return protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
}

// put stores a value unconditionally.
func (s *Store) put(ctx context.Context, key string, m proto.Message) error {
	b, err := encode(m)
	if err != nil {
		return err
	}
	revision, err := s.kv.Put(ctx, key, b)
	if err = s.syncPut(ctx, key, b, revision, err); err != nil {
		return fmt.Errorf("key %s: %w", key, err)
	}
	return nil
}

// decodeEntry decodes a value that an operator may have edited.
func decodeEntry(e jetstream.KeyValueEntry, into proto.Message) error {
	if err := unmarshal(e.Value(), into); err != nil {
		return fmt.Errorf("key %s, revision %d: %w; correct the value or delete the key", e.Key(), e.Revision(), err)
	}
	return nil
}

// unmarshal decodes a stored value, also one of a version whose deployments had a class in the field
// priority.
func unmarshal(value []byte, into proto.Message) error {
	if _, ok := into.(*messages.DeploymentSpec); ok {
		value = messages.MigrateDeployment(value)
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(value, into)
}

// isMissing reports whether an error means that the key does not exist, or that no such key can
// exist.
func isMissing(err error) bool {
	return errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrInvalidKey)
}
