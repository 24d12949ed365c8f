package host

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"troupe/cuda"
	"troupe/cuda/kernels"
)

// partition is a subset of a device's workers, which run one kernel of its streams at a time. The
// device's other streams still use as many workers as the device has. For exclusive use, divide all
// workers into partitions, as on a GPU.
type partition struct {
	dev  *device
	pool *pool
	turn sync.Mutex // held by the running kernel

	mu      sync.Mutex
	streams []cuda.Stream
	closed  bool
}

// Partition implements cuda.Partitioner.
func (d *device) Partition(shares ...int) ([]cuda.Partition, error) {
	left := d.Workers
	for _, share := range shares {
		if share <= 0 || share > left {
			return nil, fmt.Errorf("partition of %d workers: only %d left", share, left)
		}
		left -= share
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.streams == nil {
		return nil, errors.New("cuda: a partition: the device is closed")
	}
	made := make([]cuda.Partition, len(shares))
	for i, share := range shares {
		p := &partition{dev: d, pool: newPool(share)}
		made[i], d.partitions = p, append(d.partitions, p)
	}
	return made, nil
}

func (p *partition) Multiprocessors() int { return p.pool.workers }

func (p *partition) NewStream(name string) (cuda.Stream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("cuda: stream %s: its partition is closed", name)
	}
	s, err := p.dev.newStream(name, p.kernel)
	if err != nil {
		return nil, err
	}
	p.streams = append(p.streams, s)
	return s, nil
}

// kernel runs a kernel of one of the partition's streams.
func (p *partition) kernel(op cuda.Op) {
	p.turn.Lock()
	defer p.turn.Unlock()
	kernels.Run(&p.dev.mem, p.pool.split, op)
}

func (p *partition) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("cuda: already closed or released")
	}
	p.closed = true
	p.dev.mu.Lock()
	p.dev.partitions = slices.DeleteFunc(p.dev.partitions, func(other *partition) bool { return other == p })
	p.dev.mu.Unlock()
	var errs []error
	for _, s := range p.streams {
		errs = append(errs, s.Close())
	}
	p.pool.close()
	return errors.Join(errs...)
}
