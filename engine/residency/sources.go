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

// hostFirst reports whether the image in host memory is to be loaded before all other sources, and why. It
// opens no source, and asks no other node.
func (s *Store) hostFirst(image *engine.Image, from core.Source, check *verify.Load) (first bool, why string) {
	on, bytes := s.device.Info(), image.Info.WeightBytes
	all := []loadsource.Candidate{{Path: s.hostPath(), Name: FromHostCache}}
	if s.fits(image, from) != nil || s.others != nil && s.speeds.nodesBeat(all[0], bytes) {
		return s.fits(image, from) != nil, "the host cache has its image"
	}
	if s.peers != nil {
		for _, d := range s.peers.List(from.Digest(), on, s) {
			all = append(all, s.deviceCandidate(d.Name, d.Models))
		}
	}
	if s.disk.Has(from.Digest(), on) {
		all = append(all, loadsource.Candidate{Path: s.diskImagePath(), Name: string(loadsource.DiskImage)})
	}
	if _, ok := s.loader.(engine.FolderLoader); ok && s.folderHas(from.Path, from.Digest()) {
		all = append(all, loadsource.Candidate{Path: s.folderPath(from.Path), Name: string(loadsource.Folder)})
	}
	all = slices.DeleteFunc(all, func(c loadsource.Candidate) bool { return check.Doubts(c.Name) })
	order, why := s.speeds.rank(bytes, all)
	return len(order) > 0 && order[0] == 0, why
}

// sourcesOf returns the sources that have an image, in the order of their use, and the reason for that order.
// The image in host memory is among them if it is given, and the folder if another source knows the image.
// Other nodes are asked if neither host memory nor the folder has the weights, or if they are expected to be
// faster. Sources that are suspected, or whose weights this load has rejected, are left out.
func (s *Store) sourcesOf(ctx context.Context, from core.Source, check *verify.Load, image *hostSource) (
	sorted []ImageSource, why string) {
	if _, ok := s.loader.(engine.ImageLoader); !ok || from.Digest() == "" {
		return nil, ""
	}
	var all []ImageSource
	on := s.device.Info()
	if image != nil {
		all = append(all, image)
	}
	if i := s.disk.Open(from.Digest(), on); i != nil {
		all = append(all, i)
	}
	if s.peers != nil {
		all = append(all, s.peers.Open(ctx, from.Digest(), on, s)...)
	}
	if s.others != nil && s.asksNodes(all, from, image != nil) {
		all = append(all, s.others.Open(ctx, from.Digest(), on)...)
	}
	all = slices.DeleteFunc(all, func(i ImageSource) bool {
		if check.Doubts(i.Name()) {
			_ = i.Close() // nothing was read
			return true
		}
		return false
	})
	return s.rank(s.withFolder(all, from), from)
}

// asksNodes reports whether other nodes are asked for weights that some sources here have, and perhaps the
// folder.
func (s *Store) asksNodes(here []ImageSource, from core.Source, image bool) bool {
	info, err := s.loader.Inspect(from.Path, s.device.Info())
	if err != nil && !image {
		return true
	}
	var all []loadsource.Candidate
	for _, i := range here {
		all = append(all, s.candidate(i, from.Path))
	}
	bytes := info.WeightBytes
	if err == nil {
		all = append(all, loadsource.Candidate{Path: s.folderPath(from.Path), Name: string(loadsource.Folder)})
	} else {
		bytes = here[0].Image().Info.WeightBytes
	}
	order, _ := s.speeds.rank(bytes, all)
	return s.speeds.nodesBeat(all[order[0]], bytes)
}

// withFolder adds the folder to sources if it has the files of one that is not suspected.
func (s *Store) withFolder(all []ImageSource, from core.Source) []ImageSource {
	files, ok := s.loader.(engine.FolderLoader)
	known := slices.IndexFunc(all, func(i ImageSource) bool { return s.canaries.suspected(i) == "" })
	if !ok || known < 0 {
		return all
	}
	if f, err := files.OpenParts(from.Path, all[known].Image(), s.device.Info()); err == nil {
		all = append(all, folderSource{f, all[known].Image()})
	}
	return all
}

// rank puts sources in order, and says why. It closes those that are suspected.
func (s *Store) rank(all []ImageSource, from core.Source) (sorted []ImageSource, why string) {
	if len(all) == 0 {
		return nil, ""
	}
	bytes := all[0].Image().Info.WeightBytes
	var candidates []loadsource.Candidate
	for _, i := range all {
		c := s.candidate(i, from.Path)
		if c.Suspect = s.canaries.suspected(i); c.Suspect != "" {
			_ = i.Close() // nothing was read
		}
		candidates = append(candidates, c)
	}
	order, why := s.speeds.rank(bytes, candidates)
	for _, i := range order {
		sorted = append(sorted, all[i])
	}
	return sorted, why
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
	if err := s.fits(image, from); err != nil {
		return nil, err
	}
	memory, err := use.Memory()
	if err != nil {
		return nil, err
	}
	s.loads.Add(1)
	weights, err := s.loader.(engine.ImageLoader).LoadImage(ctx, s.device, image, memory, nil)
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
