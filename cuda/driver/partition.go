//go:build linux

package driver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"troupe/cuda"
)

// resource is CUdevResource, a part of a device's resources. It has 144 bytes in CUDA 12.4 to 13.0;
// the rest is reserved for later versions.
type resource [512]byte

const (
	ofMultiprocessors = 1  // CU_DEV_RESOURCE_TYPE_SM
	countOffset       = 96 // offset of the number of multiprocessors
	defaultStream     = 1  // CU_GREEN_CTX_DEFAULT_STREAM
)

func (r *resource) multiprocessors() int { return int(binary.LittleEndian.Uint32(r[countOffset:])) }

// Partition implements cuda.Partitioner with green contexts.
func (d *device) Partition(shares ...int) ([]cuda.Partition, error) {
	if d.lib.GreenStream.at == 0 {
		return nil, unsupported(d.lib.GreenStream)
	}
	left := out[resource]()
	if err := d.call("query multiprocessors", d.lib.Resource, d.handle, address(left), ofMultiprocessors); err != nil {
		return nil, err
	}
	var made []cuda.Partition
	for _, share := range shares {
		p, rest, err := d.split(left, share)
		if err != nil {
			err = fmt.Errorf("a partition of %d of %d multiprocessors: %w", share, left.multiprocessors(), err)
			for _, p := range made {
				err = errors.Join(err, p.Close())
			}
			return nil, err
		}
		made, left = append(made, p), rest
	}
	return made, nil
}

// split makes a partition of at least share multiprocessors out of from.
func (d *device) split(from *resource, share int) (p *partition, rest *resource, err error) {
	if share <= 0 || share > from.multiprocessors() {
		return nil, nil, errors.New("cuda: not enough multiprocessors left")
	}
	one, groups, rest := out[resource](), out[uint32](), out[resource]()
	defer func() { runtime.KeepAlive(from); runtime.KeepAlive(groups) }()
	*groups = 1
	if err := d.call(
		"split multiprocessors", d.lib.Split, address(one), address(groups), address(from), address(rest), 0,
		uintptr(share),
	); err != nil {
		return nil, nil, err
	}
	description, green, context := out[uintptr](), out[uintptr](), out[uintptr]()
	if err := d.call("describe a partition", d.lib.Describe, address(description), address(one), 1); err != nil {
		return nil, nil, err
	}
	if err := d.call(
		"create a partition", d.lib.GreenCreate, address(green), *description, d.handle, defaultStream,
	); err != nil {
		return nil, nil, err
	}
	p = &partition{dev: d, handle: *green, count: one.multiprocessors(), streams: map[*stream]struct{}{}}
	d.own(p, p.free)
	if err := d.call("enter a partition", d.lib.FromGreen, address(context), *green); err != nil {
		return nil, nil, errors.Join(err, p.Close())
	}
	p.events.context = *context
	return p, rest, nil
}

// partition is a green context. Its streams cross with the partition's context.
type partition struct {
	dev    *device
	handle uintptr
	count  int
	events events

	mu      sync.Mutex
	streams map[*stream]struct{}
}

func (p *partition) Multiprocessors() int { return p.count }

func (p *partition) NewStream(name string) (cuda.Stream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dev.owns(p) {
		return nil, fmt.Errorf("cuda: stream %s: its partition is closed", name)
	}
	s, err := p.dev.newStream(name, &p.events, func(handle uintptr) error {
		return p.dev.call("create stream "+name, p.dev.lib.GreenStream, handle, p.handle, nonBlocking, 0)
	})
	if err != nil {
		return nil, err
	}
	p.streams[s] = struct{}{}
	return s, nil
}

func (p *partition) Close() error { return p.dev.disown(p) }

func (p *partition) free() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for s := range p.streams {
		errs = append(errs, s.Close())
	}
	return errors.Join(
		append(errs, p.events.destroy(p.dev), p.dev.giveBack("free a partition", p.dev.lib.GreenFree, p.handle))...)
}
