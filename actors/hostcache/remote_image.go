package hostcache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"troupe/actors/supervise"
	"troupe/core/loadsource"
	"troupe/engine"
	"troupe/messages"
)

const (
	// stallTimeout is how long a load waits for a part before it uses another source.
	stallTimeout = 10 * time.Second
	sendTimeout  = time.Hour
	// partsAhead is how many parts may wait for their readers before the sender is held up, and maxAhead
	// how many if a reader waits for a part that was damaged on its way.
	partsAhead, maxAhead = 8, 64
)

// remoteImage receives parts of an image from another node.
type remoteImage struct {
	of    *OtherNodes
	from  offer
	image *engine.Image

	mu      sync.Mutex
	changed sync.Cond // a part was read or is waited for, or the transfer has ended
	ticket  *messages.BulkTicket
	sent    *supervise.Answer // nil: no answer is waited for
	parts   []uint32          // that were requested
	waiting map[int]*partReader
	pending map[int][]byte
	err     error // why nothing more comes
	failed  chan struct{}
}

// partReader waits for a part.
type partReader struct {
	into    []byte
	arrived chan struct{}
}

func newRemoteImage(o *OtherNodes, from offer, image *engine.Image) *remoteImage {
	r := &remoteImage{
		of: o, from: from, image: image, waiting: make(map[int]*partReader), pending: make(map[int][]byte),
		failed: make(chan struct{}),
	}
	r.changed.L = &r.mu
	return r
}

// Image implements residency.ImageSource.
func (r *remoteImage) Image() *engine.Image { return r.image }

// Kind implements residency.ImageSource.
func (r *remoteImage) Kind() loadsource.Kind {
	if r.from.GetOnDevice() {
		return loadsource.NodeDevice
	}
	return loadsource.Node
}

// Name implements residency.ImageSource.
func (r *remoteImage) Name() string { return r.from.source() }

// ReadPart implements engine.ImageReader.
func (r *remoteImage) ReadPart(ctx context.Context, part int, into []byte) error {
	w, err := r.wait(part, into)
	if err != nil {
		return err
	}
	rt := supervise.RuntimeOf(r.of.System)
	stalled, cancel := rt.WithTimeout(ctx, stallTimeout)
	defer cancel()
	select {
	case <-w.arrived:
	case <-r.failed:
	case <-stalled.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[part] == w { // put no longer writes to into
		delete(r.waiting, part)
		switch {
		case r.err != nil:
			return r.err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		return fmt.Errorf("part %d did not arrive within %v", part, stallTimeout)
	}
	if s := r.image.Sums[part]; xxh3.Hash(into) != s.Sum {
		return &engine.DamagedImage{Path: r.image.Path, Offset: s.Offset}
	}
	return nil
}

// wait requests the delivery of a part.
func (r *remoteImage) wait(part int, into []byte) (*partReader, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, r.err
	}
	w := &partReader{into, make(chan struct{})}
	if b, ok := r.pending[part]; ok {
		copy(into, b)
		delete(r.pending, part)
		close(w.arrived)
	} else {
		r.waiting[part] = w
	}
	r.changed.Broadcast()
	return w, nil
}

// Begin implements residency.ImageSource. It requests the transfer.
func (r *remoteImage) Begin(missing []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, part := range missing {
		r.parts = append(r.parts, uint32(part))
	}
	ticket, err := r.of.Plane.Expect(engine.ImagePartBytes, uint32(len(missing)), r.put)
	if err != nil {
		r.err = err
		return
	}
	r.ticket = ticket
	answer := supervise.Request(r.of.System.Root, r.from.PID, &messages.SendImage{
		RevisionDigest: r.image.Digests.Revision, Weights: uint32(r.image.Weights), Ticket: ticket,
		Parts: r.parts,
	}, sendTimeout)
	r.sent = answer
	supervise.RuntimeOf(r.of.System).Go(func() {
		result, err := answer.Result()
		r.mu.Lock()
		r.sent = nil
		r.mu.Unlock()
		if err := sendError(result, err); err != nil {
			r.fail(err)
		}
	})
}

func (r *remoteImage) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
		close(r.failed)
		r.changed.Broadcast()
	}
}

// put takes a part that has arrived. It holds up the sender while the readers are behind.
func (r *remoteImage) put(index uint32, b []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	part := int(r.parts[index])
	if int64(len(b)) != r.image.Sums[part].Bytes {
		return fmt.Errorf("part %d has %d bytes", part, len(b))
	}
	for {
		if w := r.waiting[part]; w != nil {
			copy(w.into, b)
			delete(r.waiting, part)
			close(w.arrived)
			return nil
		}
		switch {
		case r.err != nil:
			return r.err
		case len(r.pending) >= maxAhead:
			return errors.New("too many parts arrive before one that is waited for")
		case len(r.pending) < partsAhead || len(r.waiting) > 0:
			r.pending[part] = bytes.Clone(b)
			return nil
		}
		r.changed.Wait()
	}
}

// Close ends the transfer.
func (r *remoteImage) Close() error {
	r.fail(errors.New("the load has ended"))
	r.mu.Lock()
	ticket, sent := r.ticket, r.sent
	r.mu.Unlock()
	if sent != nil {
		sent.Cancel() // a node that is lost never answers
	}
	if ticket != nil {
		r.of.Plane.Drop(ticket)
	}
	return nil
}
