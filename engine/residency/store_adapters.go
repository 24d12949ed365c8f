package residency

import (
	"errors"
	"fmt"
	"troupe/engine"
)

// OpenAdapter checks an adapter's folder against its base model's folder, for this device. If
// models of this kind support no adapters, the error is errors.ErrUnsupported.
func (s *Store) OpenAdapter(model, adapter string) (engine.AdapterFile, error) {
	format, ok := s.loader.(engine.AdapterLoader)
	if !ok {
		return engine.AdapterFile{}, fmt.Errorf("adapters of %s: %w", model, errors.ErrUnsupported)
	}
	return format.OpenAdapter(model, adapter, s.device.Info())
}
