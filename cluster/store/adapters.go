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

// adapters is followed by "<model>/<name>". A name may have dots and slashes, a model's has no slash.
const adapters = "adapters."

// AdapterChange is what a watch of adapters tells.
type AdapterChange struct {
	Model, Name string
	Spec        *messages.AdapterSpec // nil: it was deleted
	At          uint64                // revision of the store, which grows with each change
	// Synced marks the end of what was stored when the watch began; the other fields are empty. It comes again after a reconnect.
	Synced bool
}

func adapterKey(model, name string) string { return adapters + model + "/" + name }

// PutAdapter stores an adapter and returns it with its revision. Revision 0 makes it a new one; any other is kept: what changes then is how
// it is held, not what it is. The store must be at revision `at` for it, or have none where that is 0; else ErrConflict.
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
	if err = s.syncCopy(ctx, adapterKey(spec.GetModel(), spec.GetName()), err); err != nil {
		return nil, adapterError(spec.GetModel(), spec.GetName(), err)
	}
	return withRevision(spec, now), nil
}

// Adapter returns an adapter and the revision that the store is at for it, or ErrNotFound.
func (s *Store) Adapter(ctx context.Context, model, name string) (*messages.AdapterSpec, uint64, error) {
	e, err := s.kv.Get(ctx, adapterKey(model, name))
	if err != nil {
		return nil, 0, adapterError(model, name, err)
	}
	spec, err := decodeAdapter(e)
	return spec, e.Revision(), err
}

// DeleteAdapter removes an adapter for which the store is at a revision, else ErrConflict.
func (s *Store) DeleteAdapter(ctx context.Context, model, name string, at uint64) error {
	key := adapterKey(model, name)
	if err := s.syncCopy(ctx, key, s.kv.Delete(ctx, key, jetstream.LastRevision(at))); err != nil {
		return adapterError(model, name, err)
	}
	return nil
}

// adapterError finds the errors that callers branch on.
func adapterError(model, name string, err error) error {
	switch {
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		err = ErrConflict
	case isMissing(err):
		err = ErrNotFound
	}
	return fmt.Errorf("adapter %s of model %s: %w", name, model, err)
}

// WatchAdapters gives every stored adapter to apply, then Synced, then each change, until ctx ends or the store is lost. One that can
// not be read is logged and passed over.
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
				s.log.Error().Err(err).Msg("stored adapter passed over")
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
		return nil, fmt.Errorf("key %s holds an adapter named %q of model %q", e.Key(), spec.GetName(), spec.GetModel())
	}
	return withRevision(spec, e.Revision()), nil
}

// withRevision is the adapter with its revision: that of the store when it was registered.
func withRevision(spec *messages.AdapterSpec, at uint64) *messages.AdapterSpec {
	if spec.GetRevision() != 0 {
		return spec
	}
	spec = proto.Clone(spec).(*messages.AdapterSpec)
	spec.Revision = at
	return spec
}
