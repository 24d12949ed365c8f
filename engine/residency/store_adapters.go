package residency

import (
	"errors"
	"fmt"
	"troupe/engine"
)

// OpenAdapter checks an adapter's folder against that of its base model, as they would be on this device. errors.ErrUnsupported where
// models of this kind take no adapters.
func (h *Store) OpenAdapter(model, adapter string) (engine.AdapterFile, error) {
	format, ok := h.loader.(engine.AdapterLoader)
	if !ok {
		return engine.AdapterFile{}, fmt.Errorf("adapters of %s: %w", model, errors.ErrUnsupported)
	}
	return format.OpenAdapter(model, adapter, h.device.Info())
}
