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

// Balancer is a plain HTTP balancer in front of nodes: it gives requests to them in turn, keeps its connections open,
// looks at /ready now and then, and never sends a request again.
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
	next  atomic.Int64 // when to look at the node again, in Unix nanoseconds
}

// Balance starts a balancer that looks at each node once in a period.
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
			to := b.pick()
			r.SetURL(to.url)
			to.sent.Add(1)
		},
	}
	b.server = httptest.NewServer(buffered(proxy))
	return b, nil
}

// buffered reads a request's body before it passes the request on, as nginx does by default. A ReverseProxy that is
// still reading the body when the answer begins closes the connection to the backend (golang/go#40747), and every
// node that answers at once seems to break off streams.
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

// Close ends the balancer.
func (b *Balancer) Close() {
	b.server.Close()
	b.end()
	b.probes.Wait()
}

// URL is a page of whichever node is next.
func (b *Balancer) URL(path string) string { return b.server.URL + path }

// HTTP is a client of the balancer.
func (b *Balancer) HTTP() *http.Client { return b.server.Client() }

// pick is the next node that was ready when it was looked at last; the next one of all where none was.
func (b *Balancer) pick() *backend {
	first := b.next.Add(1)
	for i := range uint64(len(b.all)) {
		if to := b.all[(first+i)%uint64(len(b.all))]; to.ready.Load() {
			return to
		}
	}
	return b.all[first%uint64(len(b.all))]
}

// probe asks a node whether it is ready. One that does not answer in time stays what it was: these tests also run on
// machines that are very busy.
func (to *backend) probe() {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	res, err := client.Get(to.url.String() + "/ready")
	if os.IsTimeout(err) {
		return
	}
	if err == nil {
		_ = res.Body.Close() // the status is all that counts
	}
	to.ready.Store(err == nil && res.StatusCode == http.StatusOK)
}

// Restart ends a node in order and starts it again, and returns once the balancer has found it ready. The balancer
// has looked at the node just before, so that it notices as late as it can. Unaware is the number of requests that it sent
// to the node after that was told to end.
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

// Steady makes requests one after the other with several clients at once until it is finished, each of them once.
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

// Keep starts clients that send requests through a balancer, in turn.
func (b *Balancer) Keep(ctx context.Context, clients int, requests []Request, answers []Answer) *Steady {
	s := &Steady{through: b, requests: requests, answers: answers}
	for range clients {
		s.clients.Go(func() {
			for !s.stop.Load() && ctx.Err() == nil {
				s.one(ctx)
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

// Reach waits until so many requests have ended, well or not.
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

// Finish lets the requests under way end, and returns the number of exact answers and what went wrong with the others.
func (s *Steady) Finish() (exact int, failed []error) {
	s.stop.Store(true)
	s.clients.Wait()
	return s.exact, s.failed
}
