package calibrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"troupe/core/cost"
	"troupe/core/loadsource"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/residency"
)

// measureLoads measures loads of a model's weights from each source, and the parts of a switch that
// concern weights alone.
func (r *run) measureLoads(path string, info engine.ModelInfo, s *cost.Switches) (err error) {
	if free, _ := r.Device.Memory(); info.WeightBytes > free {
		return fmt.Errorf("the weights take %d bytes, and the device has %d free; use a larger device",
			info.WeightBytes, free)
	}
	l := &loads{run: r, path: path, bytes: info.WeightBytes}
	if l.memory, err = r.Device.AllocHost(info.WeightBytes); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.memory.Free()) }()
	if _, err := l.folder(); err != nil { // leaves the image
		return err
	}
	if err := l.openImages(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	l.freed, l.parked = nil, nil
	took, err := r.rounds("loads of "+filepath.Base(path), r.budget(loadsShare),
		[]part{l.folder, l.diskImage, l.hostCache})
	if err != nil {
		return err
	}
	for i, source := range []loadsource.Kind{loadsource.Folder, loadsource.DiskImage, loadsource.Host} {
		r.loaded(string(source), info.WeightBytes, took[i])
	}
	s.FreeWeights, s.Park = r.duration(l.freed), r.duration(l.parked)
	return nil
}

// loaded keeps the times of loads for the fit.
func (r *run) loaded(source string, bytes int64, took []time.Duration) {
	if r.loads == nil {
		r.loads = make(map[string][]cost.Transfer)
	}
	for _, d := range took {
		r.loads[source] = append(r.loads[source], cost.Transfer{Bytes: bytes, Took: d})
	}
}

// fitLoads fits the loads of all models.
func (r *run) fitLoads() (all cost.Loads, err error) {
	for source, into := range map[loadsource.Kind]**cost.Transferred{
		loadsource.Folder: &all.Folder, loadsource.DiskImage: &all.DiskImage, loadsource.Host: &all.HostCache,
	} {
		line, residuals, failed := cost.FitLinear(r.loads[string(source)])
		*into = &cost.Transferred{Linear: line, Residuals: residuals, Origin: r.origin}
		err = errors.Join(err, failed)
	}
	return all, err
}

// loads are the sources of one model's weights.
type loads struct {
	*run
	path   string
	bytes  int64
	memory cuda.HostMemory
	image  *engine.Image
	dir    string // of images on disk
	images *residency.DiskImages

	freed, parked []time.Duration
}

// folder loads the files, which are not in the page cache, and leaves an image in host memory.
func (l *loads) folder() (time.Duration, error) {
	if err := l.dropFiles(); err != nil {
		return 0, err
	}
	return l.load(func() (w engine.Weights, err error) {
		w, l.image, err = l.Loader.LoadWithImage(l.ctx, l.Device, l.path, l.memory.Bytes())
		return w, err
	})
}

// dropFiles drops the model's files from the page cache.
func (l *loads) dropFiles() error {
	for _, name := range l.Loader.Roots.Files(l.path) {
		f, err := l.Loader.Roots.Open(name)
		if err != nil {
			return err
		}
		err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (l *loads) openImages() (err error) {
	if l.dir, err = os.MkdirTemp(l.Scratch, "images-*"); err != nil {
		return err
	}
	if l.images, err = residency.OpenDiskImages(l.dir); err != nil {
		return err
	}
	return l.images.Write(l.ctx, residency.AnyEpoch, l.image, l.memory.Bytes())
}

func (l *loads) diskImage() (time.Duration, error) {
	return l.load(func() (w engine.Weights, err error) {
		i := l.images.Open(l.image.Digests.Revision, l.Device.Info())
		if i == nil {
			return nil, errors.New("the image on disk is gone")
		}
		defer func() { err = errors.Join(err, i.Close()) }()
		return l.Loader.LoadImage(l.ctx, l.Device, i.Image(), l.memory.Bytes(), i)
	})
}

// hostCache loads the image in host memory, and copies the weights back there as parking does.
func (l *loads) hostCache() (time.Duration, error) {
	return l.loadAnd(func() (engine.Weights, error) {
		return l.Loader.LoadImage(l.ctx, l.Device, l.image, l.memory.Bytes(), nil)
	}, func(w engine.Weights) error {
		took, err := timed(func() error { return l.park(w) })
		l.parked = append(l.parked, took)
		return err
	})
}

func (l *loads) park(w engine.Weights) error {
	image, err := l.Loader.CopyToImage(context.WithoutCancel(l.ctx), w, l.memory.Bytes())
	if err == nil {
		l.image = image
	}
	return err
}

func (l *loads) load(from func() (engine.Weights, error)) (time.Duration, error) {
	return l.loadAnd(from, func(engine.Weights) error { return nil })
}

// loadAnd times a load, calls then, and times the release of the weights.
func (l *loads) loadAnd(from func() (engine.Weights, error), then func(engine.Weights) error) (time.Duration, error) {
	var w engine.Weights
	took, err := timed(func() (err error) {
		w, err = from()
		return err
	})
	if err != nil {
		return 0, err
	}
	err = then(w)
	freed, failed := timed(w.Free)
	l.freed = append(l.freed, freed)
	return took, errors.Join(err, failed)
}
