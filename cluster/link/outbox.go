package link

import (
	"sync"

	"github.com/asynkron/protoactor-go/remote"
)

// mergeBytes is about what one gRPC message carries.
const mergeBytes = 64 << 10

// outbox merges what remote writes message by message while the stream is busy. Remote would merge by itself, but drops all
// that it has at hand when it is told to stop.
type outbox struct {
	mu     sync.Mutex
	queued []*remote.MessageBatch
	wake   chan struct{} // holds one: there is something
}

func (o *outbox) put(b *remote.MessageBatch) {
	o.mu.Lock()
	o.queued = append(o.queued, b)
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take returns what is next, or nil.
func (o *outbox) take() *remote.MessageBatch {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queued) == 0 {
		return nil
	}
	merged, n := o.queued[0], 1
	for bytes := size(merged); n < len(o.queued) && bytes < mergeBytes; n++ {
		bytes += size(o.queued[n])
		merge(merged, o.queued[n])
	}
	clear(o.queued[:n])
	o.queued = o.queued[n:]
	return merged
}

func size(b *remote.MessageBatch) (bytes int) {
	for _, e := range b.Envelopes {
		bytes += len(e.MessageData)
	}
	return bytes
}

// merge appends a batch to another. Envelopes count senders from 1.
func merge(to, b *remote.MessageBatch) {
	types, targets, senders := int32(len(to.TypeNames)), int32(len(to.Targets)), int32(len(to.Senders))
	for _, e := range b.Envelopes {
		e.TypeId += types
		e.Target += targets
		if e.Sender > 0 {
			e.Sender += senders
		}
	}
	to.TypeNames, to.Targets = append(to.TypeNames, b.TypeNames...), append(to.Targets, b.Targets...)
	to.Senders, to.Envelopes = append(to.Senders, b.Senders...), append(to.Envelopes, b.Envelopes...)
}
