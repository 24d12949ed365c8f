package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Balancer is a plain HTTP balancer in front of nodes. It sends them requests in turn, keeps its
// connections open, probes /ready periodically, and never retries a request.
type Balancer struct {
	server *httptest.Server
	all    []*backend
	next   atomic.Uint64
	period time.Duration
	end    context.CancelFunc
	probes sync.WaitGroup
}

// backend is a node behind a balancer.
type backend struct {
	node  *Node
	url   *url.URL
	ready atomic.Bool
	sent  atomic.Int64 // requests
	next  atomic.Int64 // time of the next probe, in Unix nanoseconds
	turn  sync.Mutex   // held by a probe
}

// Balance starts a balancer that probes each node once per period.
func Balance(period time.Duration, nodes ...*Node) (*Balancer, error) {
	b := &Balancer{period: period}
	for _, n := range nodes {
		to, err := url.Parse(n.URL(""))
		if err != nil {
			return nil, err
		}
		b.all = append(b.all, &backend{node: n, url: to})
	}
	ctx, end := context.WithCancel(context.Background())
	b.end = end
	for _, to := range b.all {
		to.probe()
		b.probes.Go(func() {
			tick := time.NewTicker(period / 10)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				if time.Now().UnixNano() >= to.next.Load() {
					to.next.Store(time.Now().Add(period).UnixNano())
					to.probe()
				}
			}
		})
	}
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{MaxIdleConnsPerHost: 100},
		Rewrite: func(r *httputil.ProxyRequest) {
			if to := b.pick(r.In.Context()); to != nil {
				r.SetURL(to.url)
				to.sent.Add(1)
			}
		},
	}
	b.server = httptest.NewServer(buffered(proxy))
	return b, nil
}

// buffered reads a request's body before it passes the request on, as nginx does by default. A
// ReverseProxy that still reads the body when the answer begins closes the connection to the backend
// (golang/go#40747), which looks as if the node had cut the stream.
func buffered(proxy http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
}

// Close stops the balancer.
func (b *Balancer) Close() {
	b.server.Close()
	b.end()
	b.probes.Wait()
}

// URL returns the address of a path behind the balancer.
func (b *Balancer) URL(path string) string { return b.server.URL + path }

// HTTP returns a client of the balancer.
func (b *Balancer) HTTP() *http.Client { return b.server.Client() }

// pick returns the next node that was ready at its last probe. While none is, it waits: on a very busy
// machine nodes lose each other, and none is ready for a moment, although it serves again soon. It
// returns nil if ctx ends first.
func (b *Balancer) pick(ctx context.Context) *backend {
	first := b.next.Add(1)
	for {
		for i := range uint64(len(b.all)) {
			if to := b.all[(first+i)%uint64(len(b.all))]; to.ready.Load() {
				return to
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// probe asks a node whether it is ready. A probe that times out changes nothing, because these tests
// also run on very busy machines.
func (to *backend) probe() {
	to.turn.Lock()
	defer to.turn.Unlock()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	res, err := client.Get(to.url.String() + "/ready")
	if os.IsTimeout(err) {
		return
	}
	if err == nil {
		_ = res.Body.Close() // only the status matters
	}
	to.ready.Store(err == nil && res.StatusCode == http.StatusOK)
}

// Restart stops a node with SIGTERM, starts it again, and returns once the balancer has found it
// ready. The node was probed just before SIGTERM, so that the balancer notices as late as possible.
// unaware is the number of requests that it sent to the node after SIGTERM.
func (b *Balancer) Restart(ctx context.Context, n *Node) (unaware int, err error) {
	i := slices.IndexFunc(b.all, func(to *backend) bool { return to.node == n })
	if i < 0 {
		return 0, fmt.Errorf("%s is not behind this balancer", n.Name)
	}
	to := b.all[i]
	to.next.Store(time.Now().Add(b.period).UnixNano())
	sent := to.sent.Load()
	if err := n.Process().Terminate(ctx); err != nil {
		return 0, err
	}
	unaware = int(to.sent.Load() - sent)
	to.probe() // is refused, so that no answer of the old process makes the new one ready before it is
	if err := n.Start(ctx); err != nil {
		return unaware, err
	}
	return unaware, Until(ctx, func() error {
		if !to.ready.Load() {
			return fmt.Errorf("%s is not ready", n.Name)
		}
		return nil
	})
}

// Steady is a load of several clients, each of which sends one request after the other and retries
// none.
type Steady struct {
	through  gateway
	requests []Request
	answers  []Answer
	next     atomic.Int64
	stop     atomic.Bool
	clients  sync.WaitGroup

	mu     sync.Mutex
	exact  int
	failed []error
}

// Keep starts clients that send the requests in turn through the balancer, until Finish. Each waits
// for a while between two requests.
func (b *Balancer) Keep(ctx context.Context, clients int, between time.Duration, requests []Request,
	answers []Answer) *Steady {
	s := &Steady{through: b, requests: requests, answers: answers}
	for range clients {
		s.clients.Go(func() {
			for !s.stop.Load() && ctx.Err() == nil {
				s.one(ctx)
				select {
				case <-ctx.Done():
				case <-time.After(between):
				}
			}
		})
	}
	return s
}

func (s *Steady) one(ctx context.Context) {
	i := int(s.next.Add(1)-1) % len(s.requests)
	_, err := readStream(ctx, s.through, s.requests[i], s.answers[i], func() {})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed = append(s.failed, fmt.Errorf("request %d: %w", i, err))
		return
	}
	s.exact++
}

// Reach waits until a number of requests have ended, successful or not.
func (s *Steady) Reach(ctx context.Context, requests int) error {
	return Until(ctx, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := s.exact + len(s.failed); n < requests {
			return fmt.Errorf("%d of %d requests have ended", n, requests)
		}
		return nil
	})
}

// Finish waits for the requests in flight and returns the number of exact answers and the errors of
// the others.
func (s *Steady) Finish() (exact int, failed []error) {
	s.stop.Store(true)
	s.clients.Wait()
	return s.exact, s.failed
}
