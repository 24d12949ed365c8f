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
	// roomWithin is how long a body waits for room before its request is refused.
	roomWithin = time.Second
	firstRead  = 4 << 10 // bytes; the buffer doubles from here
	// bigText is from how many bytes on a text is tokenized by turns: it can take 50 times its
	// memory.
	bigText = 64 << 10
	maxTurn = 8
)

// budget bounds the memory of request bodies and of tokenizing.
type budget struct {
	bodies *semaphore.Weighted
	total  int64
	held   atomic.Int64        // of the bodies
	turns  *semaphore.Weighted // big texts that are tokenized at once
}

func newBudget(bytes int64) *budget {
	turns := max(1, min(maxTurn, runtime.GOMAXPROCS(0)/2))
	return &budget{bodies: semaphore.NewWeighted(bytes), total: bytes, turns: semaphore.NewWeighted(int64(turns))}
}

// hold is what one request has of a budget. A nil one holds nothing.
type hold struct {
	of *budget
	n  int64
}

// grow makes a hold at least n bytes, and waits for them a moment.
func (h *hold) grow(ctx context.Context, n int64) error {
	if n <= h.n {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, roomWithin)
	defer cancel()
	if n > h.of.total || h.of.bodies.Acquire(ctx, n-h.n) != nil {
		return noRoom()
	}
	h.of.held.Add(n - h.n)
	h.n = n
	return nil
}

// try is grow without waiting.
func (h *hold) try(n int64) bool {
	if n <= h.n {
		return true
	}
	if !h.of.bodies.TryAcquire(n - h.n) {
		return false
	}
	h.of.held.Add(n - h.n)
	h.n = n
	return true
}

// shrink gives back what exceeds n bytes.
func (h *hold) shrink(n int64) {
	if n < h.n {
		h.of.held.Add(n - h.n)
		h.of.bodies.Release(h.n - n)
		h.n = n
	}
}

// noRoom is the answer where the bodies of other requests take all the memory that bodies may have.
func noRoom() *openai.Error {
	e := openai.Refusal(messages.Reason_REASON_NO_MEMORY,
		"the requests under way take all memory that there is for requests; try again in a moment")
	e.Status, e.RetryAfter = http.StatusServiceUnavailable, time.Second
	return e
}

// readAll reads a body of at most maxBody bytes. Its memory counts as it grows, not as the client
// announces it.
func (h *hold) readAll(ctx context.Context, body io.Reader) ([]byte, error) {
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
func (b *budget) turn(ctx context.Context, bytes int) (done func(), err error) {
	if bytes < bigText {
		return func() {}, nil
	}
	if err := b.turns.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { b.turns.Release(1) }, nil
}
