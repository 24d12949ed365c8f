package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"troupe/gateway/apikey"
	"troupe/gateway/openai"
	"troupe/messages"
)

const (
	// revocationInterval is how often the keys of running requests are looked up again.
	revocationInterval = time.Second
	// revocationGrace is how long a client may take to read that its key was revoked.
	revocationGrace = 2 * time.Second
)

// errRevoked is why a request was cancelled whose key is no longer known.
var errRevoked = errors.New("the API key was revoked")

// keyedRequests are the requests that run with an API key. They are cancelled when their key is no longer
// in the file of keys.
type keyedRequests struct {
	keys  *apikey.Keys
	mu    sync.Mutex
	open  map[*keyedRequest]struct{}
	timer *time.Timer // of check; nil: no request runs
}

type keyedRequest struct {
	key     apikey.Key
	cancel  context.CancelCauseFunc
	control *http.ResponseController
}

// add returns a context that is cancelled with errRevoked when the key is revoked. release must be
// called when the request ends.
func (u *keyedRequests) add(
	ctx context.Context,
	key apikey.Key,
	w http.ResponseWriter,
) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	use := &keyedRequest{key, cancel, http.NewResponseController(w)}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timer == nil {
		u.open = map[*keyedRequest]struct{}{}
		u.timer = time.AfterFunc(revocationInterval, u.cancelRevoked)
	}
	u.open[use] = struct{}{}
	return ctx, func() {
		cancel(nil)
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.open, use)
	}
}

// check cancels the requests of revoked keys, and goes on as long as requests run.
func (u *keyedRequests) cancelRevoked() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for use := range u.open {
		if !u.keys.Contains(use.key) {
			use.cancel(errRevoked)
			_ = use.control.SetWriteDeadline(
				time.Now().Add(revocationGrace),
			) // a writer without a deadline does not block
			delete(u.open, use)
		}
	}
	if len(u.open) == 0 {
		u.timer = nil
		return
	}
	u.timer.Reset(revocationInterval)
}

// ended returns why a request's context has ended.
func contextError(ctx context.Context) *openai.Error {
	if errors.Is(context.Cause(ctx), errRevoked) {
		code := "invalid_api_key"
		e := openai.Invalid("", errRevoked.Error()+" while the request ran")
		e.Status, e.Code = http.StatusUnauthorized, &code
		return e
	}
	return openai.Refusal(messages.Reason_REASON_CANCELLED, "the client left")
}
