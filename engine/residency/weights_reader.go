package residency

import (
	"context"
	"errors"
	"fmt"

	"troupe/core/loadsource"
	"troupe/cuda"
	"troupe/engine"
)

// Devices finds weights on the devices of a node. It is safe for concurrent use.
type Devices interface {
	// Find returns the image of weights on a device, without content, and the name of that device as a
	// source; nil if there are none that fit.
	Find(revision string, on cuda.Info) (image *engine.Image, name string)
	// List returns the devices that have weights, except the one of a store.
	List(revision string, on cuda.Info, except *Store) []NamedDevice
	// Loaded describes the weights on the devices.
	Loaded() []LoadedWeights
	// Open returns readers of the weights on devices, except the one of a store.
	Open(ctx context.Context, revision string, on cuda.Info, except *Store) []ImageSource
}

// NamedDevice is a device with its name as a source.
type NamedDevice struct {
	Name   string
	Models *Store
}

// SourceName is the kind and the name of a source.
type SourceName struct {
	Of    loadsource.Kind
	Named string
}

// Kind implements ImageSource.
func (n SourceName) Kind() loadsource.Kind { return n.Of }

// Name implements ImageSource.
func (n SourceName) Name() string { return n.Named }

// WeightsReader reads the weights of a copy. The copy is not freed before Close.
type WeightsReader struct {
	SourceName
	store  *Store
	reader *reader
	parts  engine.WeightsParts // nil: they could not be opened
}

// Begin implements ImageSource.
func (w *WeightsReader) Begin([]int) {}

// Image implements ImageSource.
func (w *WeightsReader) Image() *engine.Image { return w.parts.Image() }

// ReadPart implements engine.ImageReader.
func (w *WeightsReader) ReadPart(ctx context.Context, part int, into []byte) error {
	err := w.mayRead()
	if err == nil {
		err = w.parts.ReadPart(ctx, part, into)
	}
	return w.failure(err)
}

// CopyPart implements engine.PartCopier.
func (w *WeightsReader) CopyPart(ctx context.Context, part int, to cuda.Device, at cuda.Ptr, into []byte) (bool,
	error) {
	if err := w.mayRead(); err != nil {
		return false, w.failure(err)
	}
	done, err := w.parts.CopyPart(ctx, part, to, at, into)
	return done, w.failure(err)
}

func (w *WeightsReader) mayRead() error {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if w.reader.revoked != "" {
		return errors.New(w.reader.revoked)
	}
	return nil
}

// failure notes damage, and returns an error that does not look like one of the device that reads: that
// the source is lost must not stop a load.
func (w *WeightsReader) failure(err error) error {
	if err == nil {
		return nil
	}
	if damaged := (*engine.DamagedImage)(nil); errors.As(err, &damaged) {
		w.store.mu.Lock()
		defer w.store.mu.Unlock()
		w.reader.Damaged = err.Error()
	}
	return fmt.Errorf("%v", err) //nolint:errorlint // see above
}

// Close ends the reader.
func (w *WeightsReader) Close() error {
	var err error
	if w.parts != nil {
		err = w.failure(w.parts.Close())
	}
	w.store.mu.Lock()
	w.reader.ended = true
	changed := w.store.readerEnded
	w.store.mu.Unlock()
	if changed != nil {
		changed()
	}
	return err
}

// reaches reports whether the device of a store reaches the one of another store directly.
func (s *Store) reaches(other *Store) bool {
	p, err := cuda.As[cuda.Peers](s.device)
	return err == nil && p.Reaches(other.device)
}
