package link

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"troupe/actors/supervise"
)

// closeRecorder records whether it was closed.
type closeRecorder struct {
	net.Conn
	closed bool
}

func (n *closeRecorder) Close() error { n.closed = true; return nil }

// TestDialRetry: a lost dial is repeated after redialInterval. The first result wins, and all other
// connections are closed.
func TestDialRetry(t *testing.T) {
	after := func(d time.Duration, conn net.Conn, err error) func(context.Context) (net.Conn, error) {
		return func(context.Context) (net.Conn, error) { time.Sleep(d); return conn, err }
	}
	lost := func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	late, soon := &closeRecorder{}, &closeRecorder{}
	for name, c := range map[string]struct {
		dials []func(context.Context) (net.Conn, error) // one after the other
		conn  net.Conn
		err   error
		takes time.Duration
	}{
		"at once": {dials: []func(context.Context) (net.Conn, error){after(0, soon, nil)}, conn: soon},
		"refused": {
			dials: []func(context.Context) (net.Conn, error){after(0, nil, syscall.ECONNREFUSED)},
			err:   syscall.ECONNREFUSED,
		},
		"lost": {
			dials: []func(context.Context) (net.Conn, error){lost, after(0, soon, nil)}, conn: soon,
			takes: redialInterval,
		},
		"lost twice": {
			dials: []func(context.Context) (net.Conn, error){lost, lost, after(0, soon, nil)}, conn: soon,
			takes: 2 * redialInterval,
		},
		"far": {
			dials: []func(context.Context) (net.Conn, error){after(400*time.Millisecond, soon, nil), lost}, conn: soon,
			takes: 400 * time.Millisecond,
		},
		"late": {
			dials: []func(context.Context) (net.Conn, error){
				after(500*time.Millisecond, late, nil), after(0, soon, nil),
			},
			conn: soon, takes: redialInterval,
		},
		"no answer": {
			dials: []func(context.Context) (net.Conn, error){lost, lost, lost, lost}, err: context.DeadlineExceeded,
			takes: connectTimeout,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), connectTimeout)
				defer cancel()
				var mu sync.Mutex
				made := 0
				began := time.Now()
				conn, err := dialRetry(ctx, supervise.System, func(ctx context.Context) (net.Conn, error) {
					mu.Lock()
					dial := c.dials[min(made, len(c.dials)-1)]
					made++
					mu.Unlock()
					return dial(ctx)
				})
				if conn != c.conn || !errors.Is(err, c.err) || time.Since(began) != c.takes {
					t.Errorf("%v, %v after %s", conn, err, time.Since(began))
				}
				time.Sleep(time.Second)
			})
		})
	}
	if !late.closed || soon.closed {
		t.Errorf("closed: the late connection %v, the returned one %v", late.closed, soon.closed)
	}
}
