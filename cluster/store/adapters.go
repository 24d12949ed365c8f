package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// adapters is the prefix of keys "adapters.<model>/<name>". A name may contain dots and slashes; a
// model's name contains no slash.
const adapters = "adapters."

// AdapterChange is a change that WatchAdapters delivers.
type AdapterChange struct {
	Model, Name string
	Spec        *messages.AdapterSpec // nil if it was deleted
	At          uint64                // revision of the key, which grows with each change
	// Synced: see NodeChange.
	Synced bool
}

func adapterKey(model, name string) string { return adapters + model + "/" + name }

// PutAdapter stores an adapter and returns it with its revision. An adapter with revision 0 becomes
// a new revision. Any other revision is kept, since such a change affects how the adapter is kept
// in memory and not its content. The key must be at revision `at`, or must not exist if at is 0;
// otherwise PutAdapter returns ErrConflict.
func (s *Store) PutAdapter(ctx context.Context, spec *messages.AdapterSpec, at uint64) (*messages.AdapterSpec, error) {
	b, err := encode(spec)
	if err != nil {
		return nil, err
	}
	var now uint64
	if key := adapterKey(spec.GetModel(), spec.GetName()); at == 0 {
		now, err = s.kv.Create(ctx, key, b)
	} else {
		now, err = s.kv.Update(ctx, key, b, at)
	}
	if err = s.syncPut(ctx, adapterKey(spec.GetModel(), spec.GetName()), b, now, err); err != nil {
		return nil, adapterError(spec.GetModel(), spec.GetName(), err)
	}
	return withRevision(spec, now), nil
}

// Adapter returns an adapter and the revision of its key, or ErrNotFound.
func (s *Store) Adapter(ctx context.Context, model, name string) (*messages.AdapterSpec, uint64, error) {
	e, err := s.kv.Get(ctx, adapterKey(model, name))
	if err != nil {
		return nil, 0, adapterError(model, name, err)
	}
	spec, err := decodeAdapter(e)
	return spec, e.Revision(), err
}

// DeleteAdapter removes an adapter whose key is at revision `at`. Otherwise it returns ErrConflict.
func (s *Store) DeleteAdapter(ctx context.Context, model, name string, at uint64) error {
	key := adapterKey(model, name)
	if err := s.syncDelete(ctx, key, at, s.kv.Delete(ctx, key, at)); err != nil {
		return adapterError(model, name, err)
	}
	return nil
}

// adapterError maps errors of NATS to those that callers test for.
func adapterError(model, name string, err error) error {
	switch {
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		err = ErrConflict
	case isMissing(err):
		err = ErrNotFound
	}
	return fmt.Errorf("adapter %s of model %s: %w", name, model, err)
}

// WatchAdapters calls apply with every stored adapter, then with Synced, then with each change. It
// returns when ctx ends or the store is lost. It logs and skips adapters that it cannot decode.
func (s *Store) WatchAdapters(ctx context.Context, apply func(AdapterChange)) error {
	return s.watch(ctx, adapters, func(e jetstream.KeyValueEntry) {
		if e == nil {
			apply(AdapterChange{Synced: true})
			return
		}
		model, name, _ := strings.Cut(strings.TrimPrefix(e.Key(), adapters), "/")
		change := AdapterChange{Model: model, Name: name, At: e.Revision()}
		if e.Operation() == jetstream.KeyValuePut {
			spec, err := decodeAdapter(e)
			if err != nil {
				s.log.Error().Err(err).Msg("stored adapter skipped")
				return
			}
			change.Spec = spec
		}
		apply(change)
	})
}

func decodeAdapter(e jetstream.KeyValueEntry) (*messages.AdapterSpec, error) {
	spec := &messages.AdapterSpec{}
	if err := decodeEntry(e, spec); err != nil {
		return nil, err
	}
	if key := adapterKey(spec.GetModel(), spec.GetName()); key != e.Key() {
		return nil, fmt.Errorf("key %s stores an adapter named %q of model %q", e.Key(), spec.GetName(),
			spec.GetModel())
	}
	return withRevision(spec, e.Revision()), nil
}

// withRevision returns the adapter with its revision, which is the store's revision when the
// adapter was registered.
func withRevision(spec *messages.AdapterSpec, at uint64) *messages.AdapterSpec {
	if spec.GetRevision() != 0 {
		return spec
	}
	spec = proto.Clone(spec).(*messages.AdapterSpec)
	spec.Revision = at
	return spec
}
