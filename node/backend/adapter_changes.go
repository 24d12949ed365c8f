package backend

import (
	"context"
	"errors"
	"fmt"

	"troupe/cluster/store"
	"troupe/control"
	"troupe/control/catalogue"
	"troupe/messages"
)

// PinAdapter implements control.Backend. The revision of the adapter does not change.
func (a *AdapterControl) PinAdapter(ctx context.Context, name string, pinned bool) (*messages.AdapterSpec, error) {
	spec, err := a.update(ctx, name, func(spec *messages.AdapterSpec, at uint64) (*messages.AdapterSpec, error) {
		if spec.GetPinned() == pinned {
			return spec, nil
		}
		spec.Pinned = pinned
		return a.Store.PutAdapter(ctx, spec, at)
	})
	if err != nil {
		return nil, err
	}
	kind := map[bool]string{true: "adapter.pinned", false: "adapter.unpinned"}[pinned]
	a.Publish(kind, catalogue.Name(spec), fmt.Sprintf("revision %d", spec.GetRevision()))
	return spec, a.await(ctx, spec, func(now *messages.AdapterSpec) bool {
		return now.GetRevision() != spec.GetRevision() || now.GetPinned() == pinned
	})
}

// DeleteAdapter implements control.Backend and gateway.Adapters. When it returns, this node's
// gateway refuses new requests for the adapter.
func (a *AdapterControl) DeleteAdapter(ctx context.Context, name string) (*messages.AdapterSpec, error) {
	spec, err := a.update(ctx, name, func(spec *messages.AdapterSpec, at uint64) (*messages.AdapterSpec, error) {
		return spec, a.Store.DeleteAdapter(ctx, spec.GetModel(), spec.GetName(), at)
	})
	if err != nil {
		return nil, err
	}
	a.Publish("adapter.deleted", catalogue.Name(spec), "requests that use it finish")
	return spec, a.await(ctx, spec, func(now *messages.AdapterSpec) bool {
		return now.GetRevision() != spec.GetRevision()
	})
}

// await waits until this node's catalogue contains a stored change of an adapter.
func (a *AdapterControl) await(ctx context.Context, spec *messages.AdapterSpec,
	ok func(*messages.AdapterSpec) bool) error {
	if err := a.Catalogue.Await(ctx, spec.GetModel(), spec.GetName(), ok); err != nil {
		return control.Refuse(messages.Reason_REASON_DEADLINE, fmt.Sprintf(
			"the change of adapter %s is stored, but this node has not seen it yet: %v; do not repeat the request",
			catalogue.Name(spec), err))
	}
	return nil
}

// update changes a stored adapter. It calls change again after a concurrent write.
func (a *AdapterControl) update(ctx context.Context, name string,
	change func(spec *messages.AdapterSpec, at uint64) (*messages.AdapterSpec, error)) (*messages.AdapterSpec, error) {
	known, err := a.Adapter(name)
	if err != nil {
		return nil, err
	}
	for {
		spec, at, err := a.Store.Adapter(ctx, known.GetModel(), known.GetName())
		if errors.Is(err, store.ErrNotFound) {
			return nil, control.Refuse(messages.Reason_REASON_NOT_FOUND,
				fmt.Sprintf("adapter %s is no longer registered", catalogue.Name(known)))
		}
		if err != nil {
			return nil, err
		}
		if spec, err = change(spec, at); !errors.Is(err, store.ErrConflict) {
			return spec, err
		}
	}
}
