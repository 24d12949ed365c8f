package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"troupe/actors/supervise"
	"troupe/gateway/apikey"
	"troupe/gateway/openai"
	"troupe/messages"
)

const (
	// revocationInterval is the time between two checks for revoked keys.
	revocationInterval = time.Second
	// revocationGrace bounds the time to write the error to the client of a revoked key.
	revocationGrace = 2 * time.Second
)

// errRevoked is the cancellation cause of requests whose key was revoked.
var errRevoked = errors.New("the API key was revoked")

// keyedRequests are the running requests with an API key. They are cancelled when their key is
// removed from the key file.
type keyedRequests struct {
	rt      supervise.Runtime
	keys    *apikey.Keys
	mu      sync.Mutex
	open    map[*keyedRequest]struct{}
	started bool // a timer will run cancelRevoked
}

type keyedRequest struct {
	key     apikey.Key
	cancel  context.CancelCauseFunc
	control *http.ResponseController
}

// add returns a context that is cancelled with errRevoked when the key is revoked. release must be
// called when the request ends.
func (k *keyedRequests) add(
	ctx context.Context, key apikey.Key, w http.ResponseWriter,
) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	request := &keyedRequest{key, cancel, http.NewResponseController(w)}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.started {
		k.started, k.open = true, map[*keyedRequest]struct{}{}
		k.rt.AfterFunc(revocationInterval, k.cancelRevoked)
	}
	k.open[request] = struct{}{}
	return ctx, func() {
		cancel(nil)
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.open, request)
	}
}

// cancelRevoked cancels the requests of revoked keys. It reschedules itself while requests run.
func (k *keyedRequests) cancelRevoked() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for request := range k.open {
		if !k.keys.Contains(request.key) {
			request.cancel(errRevoked)
			// A writer without deadlines never blocks.
			_ = request.control.SetWriteDeadline(k.rt.Now().Add(revocationGrace))
			delete(k.open, request)
		}
	}
	if k.started = len(k.open) > 0; k.started {
		k.rt.AfterFunc(revocationInterval, k.cancelRevoked)
	}
}

// contextError returns the error for a request whose context has ended.
func contextError(ctx context.Context) *openai.Error {
	if errors.Is(context.Cause(ctx), errRevoked) {
		code := "invalid_api_key"
		e := openai.Invalid("", errRevoked.Error()+" while the request ran")
		e.Status, e.Code = http.StatusUnauthorized, &code
		return e
	}
	return openai.Refusal(messages.Reason_REASON_CANCELLED, "the client left")
}
