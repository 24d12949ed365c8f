package residency

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"troupe/core/loadsource"
	core "troupe/core/residency"
	"troupe/core/verify"
	"troupe/cuda"
	"troupe/engine"
)

// noSourceHelps reports whether a load failed for a reason that does not depend on its source.
func noSourceHelps(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, cuda.ErrOutOfMemory) || errors.Is(err, cuda.ErrDeviceLost)
}

// sourcesOf returns the sources outside host memory that have an image, the fastest first, and why. The
// folder is among them if another source knows the image. Other nodes are asked if the folder cannot be
// read, or if they are faster. Sources that are suspected, or whose weights this load has rejected, are left
// out.
func (s *Store) sourcesOf(ctx context.Context, from core.Source, check *verify.Load) (all []ImageSource, why string) {
	if _, ok := s.loader.(engine.ImageLoader); !ok || from.Digest() == "" {
		return nil, ""
	}
	on := s.device.Info()
	if i := s.disk.Open(from.Digest(), on); i != nil {
		all = append(all, i)
	}
	if s.peers != nil {
		all = append(all, s.peers.Open(ctx, from.Digest(), on, s)...)
	}
	if s.others != nil {
		_, err := s.loader.Inspect(from.Path, on)
		if err != nil || s.speeds.faster(loadsource.Node, loadsource.Folder) ||
			s.speeds.faster(loadsource.NodeDevice, loadsource.Folder) {
			all = append(all, s.others.Open(ctx, from.Digest(), on)...)
		}
	}
	all = slices.DeleteFunc(all, func(i ImageSource) bool {
		out := check.Doubts(i.Name()) || s.canaries.suspected(i)
		if out {
			_ = i.Close() // nothing was read
		}
		return out
	})
	if files, ok := s.loader.(engine.FolderLoader); ok && len(all) > 0 {
		if f, err := files.OpenParts(from.Path, all[0].Image(), on); err == nil {
			all = append(all, folderSource{f, all[0].Image()})
		}
	}
	return s.speeds.order(all)
}

// loadParts loads weights from sources outside host memory. If the use is for that, it fills an image with
// them, and returns it.
func (s *Store) loadParts(ctx context.Context, p *parts, use *ImageUse) (engine.Weights, *engine.Image, error) {
	var memory []byte
	if use.Filling() {
		var err error
		if memory, err = use.Memory(); err != nil {
			use.Failed(err) // the load does without
		}
	}
	s.loads.Add(1)
	weights, err := s.loader.(engine.ImageLoader).LoadImage(ctx, s.device, p.image, memory, p)
	if err != nil || memory == nil {
		return weights, nil, err
	}
	return weights, p.image, nil
}

func (s *Store) loadImage(ctx context.Context, from core.Source, use *ImageUse, image *engine.Image) (engine.Weights,
	error) {
	loader, ok := s.loader.(engine.ImageLoader)
	if !ok || !image.Fits(s.device.Info()) {
		return nil, errors.New("the image is not one for this device")
	}
	if from.Revision != "" && image.Digests.Revision != from.Revision {
		return nil, errors.New("the image has another revision")
	}
	memory, err := use.Memory()
	if err != nil {
		return nil, err
	}
	s.loads.Add(1)
	weights, err := loader.LoadImage(ctx, s.device, image, memory, nil)
	if damaged := (*engine.DamagedImage)(nil); errors.As(err, &damaged) {
		use.Damaged(damaged)
	}
	return weights, err
}

// loadFolder loads weights from their folder. If the use is for that, it fills an image with them, and
// returns it.
func (s *Store) loadFolder(ctx context.Context, from core.Source, use *ImageUse) (engine.Weights, *engine.Image,
	error) {
	if id, ok := s.loader.(engine.DigestCache); ok && from.Revision != "" {
		if found, _ := id.CachedDigests(from.Path); found.Revision != "" && found.Revision != from.Revision {
			return nil, nil, &engine.RevisionMismatch{Path: from.Path, Want: from.Revision, Found: found}
		}
	}
	s.loads.Add(1)
	weights, image, err := s.readFolder(ctx, from.Path, use)
	if err == nil && from.Revision != "" && weights.Digests().Revision != from.Revision {
		found := weights.Digests()
		err = errors.Join(&engine.RevisionMismatch{Path: from.Path, Want: from.Revision, Found: found}, weights.Free())
	}
	if err != nil {
		return nil, nil, err
	}
	return weights, image, nil
}

func (s *Store) readFolder(ctx context.Context, path string, use *ImageUse) (engine.Weights, *engine.Image, error) {
	loader, ok := s.loader.(engine.ImageLoader)
	if ok && use.Filling() {
		memory, err := use.Memory()
		if err == nil {
			return loader.LoadWithImage(ctx, s.device, path, memory)
		}
		use.Failed(err) // the load does without an image
	}
	weights, err := s.loader.Load(ctx, s.device, path)
	return weights, nil, err
}

// ParkWeights fills an image with the weights of a copy, which stays on the device. The ticket says whether
// in host memory or on disk. It does nothing if the image is there already.
func (s *Store) ParkWeights(ctx context.Context, number uint64, ticket string) (err error) {
	use := s.images.Claim(ticket)
	if use == nil {
		return errors.New("the host cache has withdrawn its permission to copy the weights")
	}
	defer func() { err = errors.Join(err, use.Close()) }()
	if !use.Filling() {
		return nil
	}
	s.mu.Lock()
	c, ok := s.copies[number]
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("weights %d are not on the device", number)
	}
	image, err := s.fill(ctx, c.Weights, use)
	if err != nil {
		use.Failed(err)
		return err
	}
	use.Filled(image)
	return nil
}

// fill copies weights to the image that a use fills.
func (s *Store) fill(ctx context.Context, weights engine.Weights, use *ImageUse) (*engine.Image, error) {
	loader, can := s.loader.(engine.ImageLoader)
	if !can {
		return nil, fmt.Errorf("weights cannot be copied to an image: %w", errors.ErrUnsupported)
	}
	if use.OnDisk {
		return s.fillOnDisk(ctx, weights)
	}
	memory, err := use.Memory()
	if err != nil {
		return nil, err
	}
	return loader.CopyToImage(ctx, weights, memory)
}

func (s *Store) fillOnDisk(ctx context.Context, weights engine.Weights) (image *engine.Image, err error) {
	readable, can := weights.(engine.ReadableWeights)
	if !can || s.disk == nil {
		return nil, fmt.Errorf("weights cannot be copied to the disk: %w", errors.ErrUnsupported)
	}
	parts, err := readable.OpenParts(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, parts.Close()) }()
	return parts.Image(), s.disk.WriteParts(ctx, AnyEpoch, parts.Image(), parts)
}
