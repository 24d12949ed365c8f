package natskv

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/actors/supervise"
	"troupe/cluster/bucket"
)

const (
	requestTimeout = 5 * time.Second // of requests whose context has no deadline; that of nats.go
	maxDelay       = 4 * time.Millisecond
	// With natsd.ClientOptions, a client finds out after 2 to 3 s that it is cut off, and connects
	// again within maxReconnect.
	detectAfter  = 2 * time.Second
	maxDetect    = time.Second
	maxReconnect = 150 * time.Millisecond
)

// Client is the connection of a node. It implements bucket.Client.
type Client struct {
	server *Server
	rt     supervise.Runtime

	// Guarded by server.mu.
	ended         bool
	cut           bool // nothing arrives
	connected     bool // as far as the client knows
	broken        int  // number of times that the connection was lost
	cuts          int
	slow          time.Duration // added to each delay
	loseAnswers   int
	requests      *flow
	open          []*request // those without an answer
	flows         []*flow
	subscriptions []*subscription
	watchers      []*watcher
	listeners     []*listener
}

type listener struct{ f func() }

// Connect connects a client. All that it does happens in timers and goroutines of rt.
func (s *Server) Connect(rt supervise.Runtime) *Client {
	c := &Client{server: s, rt: supervise.OrSystem(rt), connected: true}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.requests = c.newFlow()
	s.clients = append(s.clients, c)
	return c
}

// random returns a random duration up to most.
func (c *Client) random(most time.Duration) time.Duration {
	return time.Duration(c.rt.Uint64() % uint64(most+1))
}

func (c *Client) delay() time.Duration { return c.slow + c.random(maxDelay) }

// Slow adds d to the delay of everything that is sent from now on.
func (c *Client) Slow(d time.Duration) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.slow = d
}

// LoseAnswers loses the answers to the next n writes that reach the server: they are applied, but
// their outcome is unknown.
func (c *Client) LoseAnswers(n int) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.loseAnswers = n
}

// Cut cuts the client off. What is on its way arrives after Heal, unless the client loses its
// connection first.
func (c *Client) Cut() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.cut = true
	c.cuts++
	cuts := c.cuts
	c.rt.AfterFunc(detectAfter+c.random(maxDetect), func() {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		if c.cut && c.cuts == cuts && c.connected {
			c.disconnect()
		}
	})
}

// Heal undoes Cut.
func (c *Client) Heal() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.cut = false
	if c.connected {
		c.flow()
		return
	}
	c.reconnectSoon()
}

// reconnectSoon reconnects after a while, unless the client is cut off by then. The caller holds mu.
func (c *Client) reconnectSoon() {
	c.rt.AfterFunc(c.random(maxReconnect), func() {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		if !c.cut && !c.connected && !c.ended {
			c.reconnect()
		}
	})
}

// flow lets everything arrive that waits.
func (c *Client) flow() {
	for _, f := range slices.Clone(c.flows) {
		f.next()
	}
}

// disconnect drops the connection. The caller holds mu, as with reconnect.
func (c *Client) disconnect() {
	c.connected = false
	c.broken++
	for _, f := range c.flows {
		f.lose()
	}
	c.flows = slices.DeleteFunc(c.flows, func(f *flow) bool { return f.once })
	for _, st := range c.server.streams {
		st.watches = slices.DeleteFunc(st.watches, func(w *watcher) bool { return w.client == c })
	}
}

// reconnect restores the connection. As with nats.go, requests that were made meanwhile are sent.
func (c *Client) reconnect() {
	c.connected = true
	for _, l := range c.listeners {
		c.rt.Go(l.f)
	}
	c.flow()
}

// Close closes the connection for good.
func (c *Client) Close() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	c.disconnect()
	for _, r := range c.open {
		c.rt.Go(r.close)
	}
	c.subscriptions, c.listeners = nil, nil
	for _, w := range c.watchers {
		w.end()
	}
	c.server.clients = slices.DeleteFunc(c.server.clients, func(other *Client) bool { return other == c })
}

// Connected implements bucket.Client.
func (c *Client) Connected() bool {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.connected
}

// Clustered implements bucket.Client.
func (c *Client) Clustered() bool { return false }

// OnConnected implements bucket.Client.
func (c *Client) OnConnected(f func()) (stop func()) {
	l := &listener{f}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.listeners = append(c.listeners, l)
	return func() {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		c.listeners = slices.DeleteFunc(c.listeners, func(other *listener) bool { return other == l })
	}
}

// subscription is a subscription to all subjects with a prefix.
type subscription struct {
	client  *Client
	prefix  string
	receive func(*nats.Msg)
	flow    *flow
}

// Subscribe implements bucket.Client. The subject must end with ">".
func (c *Client) Subscribe(subject string, f func(*nats.Msg)) (bucket.Subscription, error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.ended {
		return nil, nats.ErrConnectionClosed
	}
	sub := &subscription{client: c, prefix: strings.TrimSuffix(subject, ">"), receive: f, flow: c.newFlow()}
	c.subscriptions = append(c.subscriptions, sub)
	return sub, nil
}

// Dropped implements bucket.Subscription.
func (*subscription) Dropped() (int, error) { return 0, nil }

// Unsubscribe implements bucket.Subscription.
func (s *subscription) Unsubscribe() error {
	s.client.server.mu.Lock()
	defer s.client.server.mu.Unlock()
	s.client.subscriptions = slices.DeleteFunc(s.client.subscriptions,
		func(other *subscription) bool { return other == s })
	s.flow.ignored = true
	s.client.flows = slices.DeleteFunc(s.client.flows, func(f *flow) bool { return f == s.flow })
	return nil
}

// request is a request without an answer. Each of them learns in its own time that the connection is
// closed.
type request struct{ closed chan struct{} }

func (r *request) close() { close(r.closed) }

// forget removes a request that has ended.
func (c *Client) forget(r *request) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.open = slices.DeleteFunc(slices.Clone(c.open), func(other *request) bool { return other == r })
}

// ask sends a request to the server and waits for its answer. handle runs there, under mu.
func ask[T any](ctx context.Context, c *Client, writes bool, handle func() (T, error)) (answer T, err error) {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = c.rt.WithTimeout(ctx, requestTimeout)
		defer cancel()
	}
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	type result struct {
		answer T
		err    error
	}
	answered := make(chan result, 1)
	open := &request{closed: make(chan struct{})}
	s := c.server
	s.mu.Lock()
	if c.ended {
		s.mu.Unlock()
		return answer, nats.ErrConnectionClosed
	}
	c.open = append(c.open, open)
	c.requests.send(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stalled {
			return
		}
		var r result
		r.answer, r.err = handle()
		if writes && c.loseAnswers > 0 {
			c.loseAnswers--
			return
		}
		back := c.newFlow()
		back.once = true
		back.send(func() { answered <- r })
	})
	s.mu.Unlock()
	defer c.forget(open)
	select {
	case r := <-answered:
		return r.answer, r.err
	case <-ctx.Done():
		return answer, ctx.Err()
	case <-open.closed:
		return answer, nats.ErrConnectionClosed
	}
}

// Info implements bucket.Client.
func (c *Client) Info(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	return ask(ctx, c, false, func() (*jetstream.StreamInfo, error) {
		st, err := c.server.find(bucket.Stream(name))
		if err != nil {
			return nil, err
		}
		return st.info(), nil
	})
}

// Create implements bucket.Client.
func (c *Client) Create(ctx context.Context, cfg jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	return ask(ctx, c, true, func() (*jetstream.StreamInfo, error) { return c.server.create(cfg) })
}

// Update implements bucket.Client.
func (c *Client) Update(ctx context.Context, cfg jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	return ask(ctx, c, true, func() (*jetstream.StreamInfo, error) { return c.server.update(cfg) })
}

// Delete implements bucket.Client.
func (c *Client) Delete(ctx context.Context, name string) error {
	_, err := ask(ctx, c, true, func() (struct{}, error) { return c.server.delete(bucket.Stream(name)) })
	return err
}

// Keys implements bucket.Client.
func (c *Client) Keys(ctx context.Context, name string) (keys []string, last uint64, err error) {
	l, err := ask(ctx, c, false, func() (listing, error) { return c.server.list(bucket.Stream(name)) })
	for _, subject := range l.subjects {
		keys = append(keys, strings.TrimPrefix(subject, bucket.Subject(name, "")))
	}
	return keys, l.last, err
}

// Last implements bucket.Client.
func (c *Client) Last(ctx context.Context, name, key string) (*jetstream.RawStreamMsg, error) {
	return ask(ctx, c, false, func() (*jetstream.RawStreamMsg, error) {
		return c.server.lastMsg(bucket.Stream(name), bucket.Subject(name, key))
	})
}

// Write implements bucket.Client.
func (c *Client) Write(ctx context.Context, name, key string, v bucket.Value, over uint64) (uint64, error) {
	return ask(ctx, c, true, func() (uint64, error) {
		before, _ := c.server.lastMsg(bucket.Stream(name), bucket.Subject(name, key))
		revision, err := c.server.write(bucket.Stream(name), bucket.Subject(name, key), v.Header,
			slices.Clone(v.Data), over)
		if written := c.server.written; err == nil && written != nil {
			w := Write{Client: c, Bucket: name, Key: key, After: v.Data}
			if before != nil {
				w.Before = before.Data
			}
			written(w)
		}
		return revision, err
	})
}

// Purge implements bucket.Client.
func (c *Client) Purge(ctx context.Context, name string, next uint64) error {
	_, err := ask(ctx, c, true, func() (struct{}, error) { return c.server.purge(bucket.Stream(name), next) })
	return err
}

// Held is what a client keeps open: subscriptions, watches of buckets, and functions to call when it connects.
type Held struct{ Subscriptions, Watchers, Listeners int }

// Held returns what the client keeps open.
func (c *Client) Held() Held {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return Held{len(c.subscriptions), len(c.watchers), len(c.listeners)}
}
