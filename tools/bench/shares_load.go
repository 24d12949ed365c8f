package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// tenant sends requests to the nodes in turn.
type tenant struct {
	nodes []string
	key   string
	body  func(i int) string
}

// paced is the result of requests at a fixed rate.
type paced struct {
	sent    int
	first   []time.Duration // times to first token, ascending
	failure error           // error of a request without a first token
}

func (p paced) at(q float64) time.Duration {
	if len(p.first) == 0 {
		return never
	}
	return p.first[min(len(p.first)-1, int(q*float64(len(p.first))))]
}

// never stands for the time to first token of a request that received none.
const never = time.Hour

// p99 counts requests without an answer as the slowest.
func (p paced) p99() time.Duration {
	if lost := p.sent - len(p.first); lost*100 > p.sent {
		return never
	}
	return p.at(0.99)
}

func (p paced) p50() time.Duration { return p.at(0.5) }

// pooled keeps connections open, like real clients.
var pooled = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}}

func (t tenant) request(ctx context.Context, i int) (*http.Response, error) {
	r, err := http.NewRequestWithContext(
		ctx, http.MethodPost, "http://"+t.nodes[i%len(t.nodes)]+"/v1/completions", strings.NewReader(t.body(i)),
	)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+t.key)
	r.Header.Set("Content-Type", "application/json")
	res, err := pooled.Do(r)
	if err == nil && res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		return nil, fmt.Errorf("%s: %s", res.Status, text)
	}
	return res, err
}

// stream sends a request, reads the whole answer and returns the time to its first event.
func (t tenant) stream(ctx context.Context, i int) (time.Duration, error) {
	began := time.Now()
	res, err := t.request(ctx, i)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	if _, err := in.ReadString('\n'); err != nil {
		return 0, err
	}
	first := time.Since(began)
	_, err = io.Copy(io.Discard, in)
	return first, err
}

// numbered counts the requests of all measurements, so that no prompt is repeated.
var numbered atomic.Int64

// saturate returns the rate of answered requests with 8 always in flight.
func (t tenant) saturate(ctx context.Context, d time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	began := time.Now()
	for range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				if _, err := t.stream(ctx, int(numbered.Add(1))); err == nil {
					done.Add(1)
				} else {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	all.Wait()
	if done.Load() == 0 {
		return 0, fmt.Errorf("no request was answered within %s: %w", d, *failed.Load())
	}
	return float64(done.Load()) / time.Since(began).Seconds(), nil
}

// pace sends requests at a rate for a while and waits for their answers.
func (t tenant) pace(ctx context.Context, rate float64, d time.Duration) (p paced) {
	ctx, cancel := context.WithTimeout(ctx, d+40*time.Second)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		p.sent++
		all.Go(func() {
			first, err := t.stream(ctx, int(numbered.Add(1)))
			mu.Lock()
			defer mu.Unlock()
			if first > 0 { // the rest may take longer than the wait
				p.first = append(p.first, first)
			} else {
				p.failure = err
			}
		})
	}
	all.Wait()
	slices.Sort(p.first)
	return p
}

// flood is a way to take more than a fair share. start returns a function that waits for its end
// and describes the result.
type flood struct {
	name  string
	start func(ctx context.Context, nodes []string) (over func() string)
}

var floods = []flood{
	{"4,100 POSTs without a body", func(ctx context.Context, nodes []string) func() string {
		return sockets(
			ctx, nodes, 4100,
			"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+
				floodKey+"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n",
		)
	}},
	{"24 × n = 128 × 900 tokens, max_priority: standard", func(ctx context.Context, nodes []string) func() string {
		return repeated(ctx, tenant{nodes, floodKey, many("")}, 24)
	}},
	{"the same, without max_priority, in the other's class", func(ctx context.Context, nodes []string) func() string {
		return repeated(ctx, tenant{nodes, freeKey, many(`"priority":"standard",`)}, 24)
	}},
	{"300 streams of 900 tokens that are read", func(ctx context.Context, nodes []string) func() string {
		return repeated(ctx, tenant{nodes, floodKey, func(i int) string {
			return fmt.Sprintf(`{"model":"kjv","prompt":"%d In","max_tokens":900,"ignore_eos":true,"stream":true}`, i)
		}}, 300)
	}},
	{"300 streams of 900 tokens that are not read", func(ctx context.Context, nodes []string) func() string {
		body := `{"model":"kjv","prompt":"In","max_tokens":900,"ignore_eos":true,"stream":true,"logprobs":5}`
		return sockets(ctx, nodes, 300, fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: "+
			"Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			floodKey, len(body), body))
	}},
	{"64 prompts of about 900 tokens at a time", func(ctx context.Context, nodes []string) func() string {
		return repeated(ctx, tenant{nodes, floodKey, func(i int) string {
			return fmt.Sprintf(
				`{"model":"kjv","prompt":"%d %s","max_tokens":1}`, i,
				strings.Repeat("And God said unto them. ", 14*quietWords),
			)
		}}, 64)
	}},
}

func many(priority string) func(int) string {
	return func(i int) string {
		return fmt.Sprintf(
			`{"model":"kjv","prompt":"%d In",%s"max_tokens":900,"ignore_eos":true,"n":128,"stream":true}`, i, priority,
		)
	}
}

// repeated keeps the given number of requests in flight.
func repeated(ctx context.Context, t tenant, requests int) func() string {
	var all sync.WaitGroup
	var done, refused atomic.Int64
	for range requests {
		all.Go(func() {
			for ctx.Err() == nil {
				switch _, err := t.stream(ctx, int(numbered.Add(1))); {
				case err == nil:
					done.Add(1)
				case ctx.Err() == nil:
					refused.Add(1)
					select {
					case <-ctx.Done():
					case <-time.After(time.Second): // the value of Retry-After
					}
				}
			}
		})
	}
	return func() string {
		all.Wait()
		return fmt.Sprintf("of the flood %d requests were served and %d refused", done.Load(), refused.Load())
	}
}

// sockets opens connections, sends the same on each, and reads nothing.
func sockets(ctx context.Context, nodes []string, n int, send string) func() string {
	var conns []net.Conn
	for i := range n {
		c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", nodes[i%len(nodes)])
		if err != nil {
			break
		}
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		_, _ = io.WriteString(c, send) // a closed one counts too
		conns = append(conns, c)
	}
	return func() string {
		for _, c := range conns {
			_ = c.Close()
		}
		return fmt.Sprintf("%d connections were opened", len(conns))
	}
}
