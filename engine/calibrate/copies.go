package calibrate

import (
	"errors"
	"fmt"
	"os"
	"time"

	"troupe/core/cost"
	"troupe/core/units"
	"troupe/cuda"
	"troupe/engine/directio"
)

const (
	smallestCopy = 4 << 10
	largestCopy  = 64 << 20
	copyFactor   = 4 // from one size to the next
	diskBytes    = 64 << 20
	smallestRead = 64 << 10
	largestRead  = 16 << 20
)

// copies measures copies of several sizes by each path.
func (r *run) copies() (all cost.Copies, err error) {
	free, _ := r.Device.Memory()
	largest := min(largestCopy, free/4)
	b, err := openBuffers(r.Device, r.Peer, largest)
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	disk, err := openDisk(r.Scratch)
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, disk.close()) }()
	paths := []struct {
		into           **cost.Transferred
		name           string
		first, largest int64
		run            func(bytes int64) error
	}{
		{&all.HostToDevice, "host to device", smallestCopy, largest, b.in},
		{&all.DeviceToHost, "device to host", smallestCopy, largest, b.out},
		{&all.WithinDevice, "within the device", smallestCopy, largest, b.within},
		{&all.PeerToDevice, "device to device", smallestCopy, largest, b.fromPeer},
		{&all.DiskToHost, "disk to host", smallestRead, largestRead, disk.read},
		{&all.HostToDisk, "host to disk", smallestRead, largestRead, disk.write},
	}
	for _, p := range paths {
		if p.into == &all.PeerToDevice && b.peer == nil {
			continue
		}
		t, err := r.transfers("copies: "+p.name, p.first, p.largest, p.run)
		if err != nil {
			return all, fmt.Errorf("%s: %w", p.name, err)
		}
		*p.into = t
	}
	return all, nil
}

// transfers measures copies of all sizes, and fits their cost to the median of each size.
func (r *run) transfers(what string, first, largest int64, run func(int64) error) (*cost.Transferred, error) {
	var sizes []int64
	var parts []part
	for bytes := first; bytes <= largest; bytes *= copyFactor {
		sizes = append(sizes, bytes)
		parts = append(parts, func() (time.Duration, error) { return timed(func() error { return run(bytes) }) })
	}
	const paths = 6
	took, err := r.rounds(what, time.Duration(copiesShare*float64(r.Time)/paths), parts)
	if err != nil {
		return nil, err
	}
	all := make([]cost.Transfer, len(sizes))
	for i, bytes := range sizes {
		all[i] = cost.Transfer{Bytes: bytes, Took: median(took[i])}
	}
	line, residuals, err := cost.FitLinear(all)
	return &cost.Transferred{Linear: line, Residuals: residuals, Origin: r.origin}, err
}

// buffers are memory on the device and page-locked on the host.
type buffers struct {
	device, other cuda.Device
	at, from      cuda.Ptr
	theirs        cuda.Ptr // on the other device
	host          cuda.HostMemory
	stream        cuda.Stream
	peer          cuda.PeerCopier // nil: there is no other device
}

func openBuffers(d, other cuda.Device, bytes int64) (b *buffers, err error) {
	b = &buffers{device: d, other: other}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.at, err = d.Alloc(bytes); err != nil {
		return nil, err
	}
	if b.from, err = d.Alloc(bytes); err != nil {
		return nil, err
	}
	if b.host, err = d.AllocHost(bytes); err != nil {
		return nil, err
	}
	if b.stream, err = d.NewStream("copies"); err != nil {
		return nil, err
	}
	clear(b.host.Bytes()) // all unwritten pages share the zero page
	if err := errors.Join(b.stream.CopyIn(b.from, b.host.Bytes()), b.in(bytes)); err != nil {
		return nil, err
	}
	return b, b.openPeer(bytes)
}

// openPeer lets the other device be a source, if the devices can copy from each other.
func (b *buffers) openPeer(bytes int64) (err error) {
	copier, unsupported := cuda.As[cuda.PeerCopier](b.stream)
	if b.other == nil || unsupported != nil {
		return nil
	}
	if b.theirs, err = b.other.Alloc(bytes); err != nil {
		return err
	}
	s, err := b.other.NewStream("fill")
	if err != nil {
		return err
	}
	host, err := b.other.AllocHost(bytes)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	clear(host.Bytes())
	err = errors.Join(s.CopyIn(b.theirs, host.Bytes()), s.Sync(), s.Close(), host.Free())
	b.peer = copier
	return err
}

func (b *buffers) in(bytes int64) error {
	return errors.Join(b.stream.CopyIn(b.at, b.host.Bytes()[:bytes]), b.stream.Sync())
}

func (b *buffers) out(bytes int64) error {
	return errors.Join(b.stream.CopyOut(b.host.Bytes()[:bytes], b.at), b.stream.Sync())
}

func (b *buffers) within(bytes int64) error {
	return errors.Join(b.stream.Copy(b.at, b.from, bytes), b.stream.Sync())
}

func (b *buffers) fromPeer(bytes int64) error {
	return errors.Join(b.peer.CopyPeer(b.at, b.other, b.theirs, bytes), b.stream.Sync())
}

func (b *buffers) close() (err error) {
	if b.stream != nil {
		err = b.stream.Close()
	}
	if b.host != nil {
		err = errors.Join(err, b.host.Free())
	}
	for _, p := range []cuda.Ptr{b.at, b.from} {
		if p != 0 {
			err = errors.Join(err, b.device.Free(p))
		}
	}
	if b.theirs != 0 {
		err = errors.Join(err, b.other.Free(b.theirs))
	}
	return err
}

// disk is a file that is read and written past the page cache, if its file system can.
type disk struct {
	file   *os.File
	buffer []byte
	next   int64 // offset of the next copy, so that no range is read twice in a row
}

func openDisk(folder string) (*disk, error) {
	f, err := os.CreateTemp(folder, "disk-*")
	if err != nil {
		return nil, err
	}
	d := &disk{file: f, buffer: directio.Buffer(largestRead)}
	for i := range d.buffer {
		d.buffer[i] = byte(i * 31)
	}
	for at := int64(0); at < diskBytes; at += largestRead {
		if _, err := f.WriteAt(d.buffer, at); err != nil {
			return nil, errors.Join(fmt.Errorf("%s for a test of the disk: %w", units.FormatBytes(diskBytes), err),
				d.close())
		}
	}
	if err := f.Sync(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	directio.Set(f, true)
	return d, nil
}

func (d *disk) at(bytes int64) int64 {
	if d.next+bytes > diskBytes {
		d.next = 0
	}
	at := d.next
	d.next += bytes
	return at
}

func (d *disk) read(bytes int64) error {
	_, err := d.file.ReadAt(d.buffer[:bytes], d.at(bytes))
	return err
}

func (d *disk) write(bytes int64) error {
	_, err := d.file.WriteAt(d.buffer[:bytes], d.at(bytes))
	return err
}

func (d *disk) close() error { return errors.Join(d.file.Close(), os.Remove(d.file.Name())) }
