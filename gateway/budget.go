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

	"troupe/actors/supervise"
	"troupe/gateway/openai"
	"troupe/messages"
)

const (
	defaultBodyBytes = 256 << 20
	// bodyMemoryWait is how long a body waits for memory before its request is refused.
	bodyMemoryWait = time.Second
	firstRead      = 4 << 10 // bytes of the first buffer; later ones are twice as large
	// largeText is the size in bytes from which texts are tokenized a few at a time, since
	// tokenizing takes up to 50 times their memory.
	largeText     = 64 << 10
	maxTokenizers = 8
)

// memoryBudget bounds the memory of request bodies and of tokenizing.
type memoryBudget struct {
	rt         supervise.Runtime
	bodies     *semaphore.Weighted
	total      int64
	reserved   atomic.Int64        // bytes reserved for bodies
	tokenizers *semaphore.Weighted // permits to tokenize a large text
}

func newMemoryBudget(bytes int64, rt supervise.Runtime) *memoryBudget {
	permits := max(1, min(maxTokenizers, runtime.GOMAXPROCS(0)/2))
	return &memoryBudget{
		rt:         rt,
		bodies:     semaphore.NewWeighted(bytes),
		total:      bytes,
		tokenizers: semaphore.NewWeighted(int64(permits)),
	}
}

// reservation is one request's part of a memoryBudget.
type reservation struct {
	budget *memoryBudget
	bytes  int64
}

// grow extends the reservation to at least n bytes. It waits up to bodyMemoryWait. Free memory is
// taken even if that time has passed, since a busy machine may not have run this goroutine during it.
func (r *reservation) grow(ctx context.Context, n int64) error {
	if r.tryGrow(n) {
		return nil
	}
	ctx, cancel := r.budget.rt.WithTimeout(ctx, bodyMemoryWait)
	defer cancel()
	if n > r.budget.total || r.budget.bodies.Acquire(ctx, n-r.bytes) != nil {
		return bodyMemoryExhausted()
	}
	r.budget.reserved.Add(n - r.bytes)
	r.bytes = n
	return nil
}

// tryGrow extends the reservation without waiting and reports whether it could.
func (r *reservation) tryGrow(n int64) bool {
	if n <= r.bytes {
		return true
	}
	if !r.budget.bodies.TryAcquire(n - r.bytes) {
		return false
	}
	r.budget.reserved.Add(n - r.bytes)
	r.bytes = n
	return true
}

// shrink returns the bytes beyond n to the budget.
func (r *reservation) shrink(n int64) {
	if n < r.bytes {
		r.budget.reserved.Add(n - r.bytes)
		r.budget.bodies.Release(r.bytes - n)
		r.bytes = n
	}
}

// bodyMemoryExhausted returns the error for a request whose body finds no memory.
func bodyMemoryExhausted() *openai.Error {
	e := openai.Refusal(messages.Reason_REASON_NO_MEMORY,
		"the requests in flight use all memory for request bodies; try again in a moment")
	e.Status, e.RetryAfter = http.StatusServiceUnavailable, time.Second
	return e
}

// readAll reads a body of at most maxBody bytes. It reserves memory as the body arrives, whatever
// length the client declared.
func (r *reservation) readAll(ctx context.Context, body io.Reader) ([]byte, error) {
	var data []byte
	for {
		if len(data) == cap(data) {
			size := max(firstRead, 2*cap(data))
			if err := r.grow(ctx, int64(size)); err != nil {
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

// acquireTokenizer waits for the permit to tokenize a text. Texts below largeText need none.
func (b *memoryBudget) acquireTokenizer(ctx context.Context, bytes int) (done func(), err error) {
	if bytes < largeText {
		return func() {}, nil
	}
	if err := b.tokenizers.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { b.tokenizers.Release(1) }, nil
}
