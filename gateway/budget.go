package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"troupe/gateway/openai"
	"troupe/messages"
)

const (
	defaultBodyBytes = 256 << 20
	// bodyMemoryWait is how long a body waits for room before its request is refused.
	bodyMemoryWait = time.Second
	firstRead      = 4 << 10 // bytes; the buffer doubles from here
	// largeText is from how many bytes on a text is tokenized by turns: it can take 50 times its
	// memory.
	largeText     = 64 << 10
	maxTokenizers = 8
)

// budget bounds the memory of request bodies and of tokenizing.
type memoryBudget struct {
	bodies     *semaphore.Weighted
	total      int64
	reserved   atomic.Int64        // of the bodies
	tokenizers *semaphore.Weighted // big texts that are tokenized at once
}

func newMemoryBudget(bytes int64) *memoryBudget {
	turns := max(1, min(maxTokenizers, runtime.GOMAXPROCS(0)/2))
	return &memoryBudget{
		bodies:     semaphore.NewWeighted(bytes),
		total:      bytes,
		tokenizers: semaphore.NewWeighted(int64(turns)),
	}
}

// hold is what one request has of a budget. A nil one holds nothing.
type reservation struct {
	budget *memoryBudget
	bytes  int64
}

// grow makes a hold at least n bytes, and waits for them a moment.
func (h *reservation) grow(ctx context.Context, n int64) error {
	if n <= h.bytes {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, bodyMemoryWait)
	defer cancel()
	if n > h.budget.total || h.budget.bodies.Acquire(ctx, n-h.bytes) != nil {
		return bodyMemoryExhausted()
	}
	h.budget.reserved.Add(n - h.bytes)
	h.bytes = n
	return nil
}

// try is grow without waiting.
func (h *reservation) tryGrow(n int64) bool {
	if n <= h.bytes {
		return true
	}
	if !h.budget.bodies.TryAcquire(n - h.bytes) {
		return false
	}
	h.budget.reserved.Add(n - h.bytes)
	h.bytes = n
	return true
}

// shrink gives back what exceeds n bytes.
func (h *reservation) shrink(n int64) {
	if n < h.bytes {
		h.budget.reserved.Add(n - h.bytes)
		h.budget.bodies.Release(h.bytes - n)
		h.bytes = n
	}
}

// bodyMemoryExhausted is the answer where the bodies of other requests take all the memory that bodies may have.
func bodyMemoryExhausted() *openai.Error {
	e := openai.Refusal(messages.Reason_REASON_NO_MEMORY,
		"the requests under way take all memory that there is for requests; try again in a moment")
	e.Status, e.RetryAfter = http.StatusServiceUnavailable, time.Second
	return e
}

// readAll reads a body of at most maxBody bytes. Its memory counts as it grows, not as the client
// announces it.
func (h *reservation) readAll(ctx context.Context, body io.Reader) ([]byte, error) {
	var data []byte
	for {
		if len(data) == cap(data) {
			size := max(firstRead, 2*cap(data))
			if err := h.grow(ctx, int64(size)); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, size), data...)
		}
		n, err := body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// turn waits until a text may be tokenized. Small ones need not wait.
func (b *memoryBudget) acquireTokenizer(ctx context.Context, bytes int) (done func(), err error) {
	if bytes < largeText {
		return func() {}, nil
	}
	if err := b.tokenizers.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { b.tokenizers.Release(1) }, nil
}
