package dst

import (
	"errors"

	"troupe/cluster/store"
	"troupe/messages"
)

// register stores an adapter, or a new revision of it.
func (o *operator) register(spec *messages.AdapterSpec) {
	o.do(func() error {
		_, at, err := o.store.Adapter(o.ctx, spec.GetModel(), spec.GetName())
		if err == nil || errors.Is(err, store.ErrNotFound) {
			_, err = o.store.PutAdapter(o.ctx, spec, at)
		}
		return err
	})
}

// deleteAdapter deletes an adapter.
func (o *operator) deleteAdapter(model, name string) {
	o.do(func() error {
		_, at, err := o.store.Adapter(o.ctx, model, name)
		if err == nil {
			err = o.store.DeleteAdapter(o.ctx, model, name, at)
		}
		return err
	})
}

// pinAdapter pins or unpins a stored adapter. Its revision does not change.
func (o *operator) pinAdapter(model, name string, pinned bool) {
	o.do(func() error {
		spec, at, err := o.store.Adapter(o.ctx, model, name)
		if err == nil {
			spec.Pinned = pinned
			_, err = o.store.PutAdapter(o.ctx, spec, at)
		}
		return err
	})
}

// pin stores a pinned prefix.
func (o *operator) pin(prefix *messages.PinnedPrefix) {
	o.do(func() error { return o.store.PutPin(o.ctx, prefix) })
}

// unpin deletes a pinned prefix.
func (o *operator) unpin(name string) {
	o.do(func() error { return o.store.DeletePin(o.ctx, name) })
}

// adapter returns a stored adapter, or nil.
func (o *operator) adapter(model, name string) *messages.AdapterSpec {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.adapters[model+"/"+name]
}

func (o *operator) applyAdapter(c store.AdapterChange) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !c.Synced {
		o.adapters[c.Model+"/"+c.Name] = c.Spec
	}
}
